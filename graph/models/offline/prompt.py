"""What a prompt says, as records: the request, the catalog, the loaded skills, what tools answered."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

_CATALOG = re.compile(r"<available_skills>\n(.*?)\n?</available_skills>", re.DOTALL)
_CATALOG_LINE = re.compile(r"- (?P<name>.+?)(?:: (?P<description>.*))?")
_SKILL = re.compile(
    r'^<skill name="(?P<name>[^"\n]+)"[^>\n]*>\n(?P<body>.*?)\n?^</skill>$', re.DOTALL | re.MULTILINE
)
_FILES = re.compile(
    r'^<skill_resources name="(?P<name>[^"\n]+)">\n(?P<lines>.*?)\n?^</skill_resources>$',
    re.DOTALL | re.MULTILINE,
)
_FILE_LINE = re.compile(r"(?P<path>.+) \((?P<type>script|reference|asset|other), [^()]*\)")
_STILL_ACTIVE = "These skills were loaded earlier"
_STATUS = "<status>"
_OUTCOME = re.compile(r"(?:exit code (?P<code>-?\d+)|stopped: [^\n(]*|ended by [^\n(]*)")


class SkillFile(NamedTuple):
    """One line of a loaded skill's list of files."""

    path: str
    type: str


class Skill(NamedTuple):
    """A loaded skill as the prompt shows it."""

    name: str
    instructions: str
    files: tuple[SkillFile, ...]


class Result(NamedTuple):
    """What a tool answered to one call."""

    tool: str
    args: Mapping[str, Any]
    text: str
    refused: bool
    """The call was not carried out: denied, unknown, over a limit, or it broke."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the next step depends on."""

    request: str
    earlier: tuple[str, ...]
    """Requests before this one, newest first."""
    catalog: tuple[tuple[str, str], ...]
    """Name and description of what may be loaded."""
    catalog_cut: bool
    """There are skills that the catalog does not show."""
    skills: Mapping[str, Skill]
    """Loaded skills by name, in the order of their loading."""
    results: tuple[Result, ...]
    """Tool results since the request."""
    status: str
    tools: frozenset[str]

    def of(self, tool: str) -> tuple[Result, ...]:
        """Return the results of one tool since the request."""
        return tuple(result for result in self.results if result.tool == tool)


def read(messages: Sequence[BaseMessage], tools: frozenset[str]) -> Situation:
    """Return what the messages say. Total: a prompt of another shape gives empty fields."""
    requests = [index for index, message in enumerate(messages) if _is_request(message)]
    start = requests[-1] if requests else len(messages)
    system = "\n".join(message.text for message in messages if isinstance(message, SystemMessage))
    statuses = [message.text for message in messages if _is_status(message)]
    names, cut = _catalog(system)
    return Situation(
        request=messages[start].text.strip() if requests else "",
        earlier=tuple(messages[index].text.strip() for index in reversed(requests[:-1])),
        catalog=names,
        catalog_cut=cut,
        skills=_skills(messages),
        results=_results(messages, start),
        status=statuses[-1] if statuses else "",
        tools=tools,
    )


def exit_code(result: Result) -> int | None:
    """Return how a script ended; None when it did not end by itself, or was not run."""
    match = None if result.refused else _OUTCOME.match(result.text)
    return int(match["code"]) if match and match["code"] else None


def was_run(result: Result) -> bool:
    """Return whether the text is the report of a run."""
    return not result.refused and _OUTCOME.match(result.text) is not None


def stream(result: Result, name: str) -> str:
    """Return the `stdout` or `stderr` section of a run's report."""
    parts = re.split(r"^(stdout|stderr):\n", result.text, maxsplit=0, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=False))
    return found.get(name, "").strip("\n")


def _is_status(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and message.text.lstrip().startswith(_STATUS)


def _is_request(message: BaseMessage) -> bool:
    if not isinstance(message, HumanMessage) or message.additional_kwargs.get("skills_agent"):
        return False
    text = message.text.lstrip()
    return not text.startswith(_STATUS) and not (text.startswith(_STILL_ACTIVE) and _SKILL.search(text))


def _catalog(system: str) -> tuple[tuple[tuple[str, str], ...], bool]:
    blocks = _CATALOG.findall(system)
    if not blocks:
        return (), False
    lines = [line.strip() for line in blocks[-1].splitlines() if line.strip()]
    matches = (_CATALOG_LINE.fullmatch(line) for line in lines)
    names = tuple(
        (html.unescape(match["name"]), html.unescape(match["description"] or ""))
        for match in matches
        if match
    )
    return names, any(line[0] in "([" for line in lines)


def _skills(messages: Sequence[BaseMessage]) -> Mapping[str, Skill]:
    """Read the loaded skills from where the agent puts them: never from what other tools returned."""
    found: dict[str, Skill] = {}
    for message in messages:
        receipt = isinstance(message, ToolMessage) and message.name == "load_skill"
        orphans = isinstance(message, HumanMessage) and message.text.startswith(_STILL_ACTIVE)
        if not receipt and not orphans:
            continue
        files = {match["name"]: _files(match["lines"]) for match in _FILES.finditer(message.text)}
        for match in _SKILL.finditer(message.text):
            name = html.unescape(match["name"])
            found[name] = Skill(name, match["body"], files.get(match["name"], ()))
    return found


def _files(lines: str) -> tuple[SkillFile, ...]:
    matches = (_FILE_LINE.fullmatch(html.unescape(line)) for line in lines.splitlines())
    return tuple(SkillFile(match["path"], match["type"]) for match in matches if match)


def _results(messages: Sequence[BaseMessage], start: int) -> tuple[Result, ...]:
    calls = {
        call["id"]: call
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    results = []
    for message in messages[start:]:
        if not isinstance(message, ToolMessage):
            continue
        call = calls.get(message.tool_call_id)
        name = message.name or (call["name"] if call else "")
        results.append(
            Result(name, call["args"] if call else {}, message.text, refused=message.status == "error")
        )
    return tuple(results)
