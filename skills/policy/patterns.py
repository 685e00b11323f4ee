"""The grammar of an entry in `allowed-tools` and `disallowed-tools`, and which calls it speaks of.

    entry     = name [ "(" argument ")" ]
    name      = a tool's name here, or in another client (tool_names.py)
              | "mcp__" server [ "__" tool ]          `*` in `tool` is any text
    argument  = "*"                                   as if there were no parenthesis
              | command                               after a shell's name: `git:*`, `git diff *`, `npm test`
              | path                                  after a file tool's name: `src/**`, `*.md`

Commands are described in commands.py. Paths are relative, with `/`: to the skill's folder for `run_script`
and `read_resource`, to the workspace for the others. `*` is any text within a name, `**` any folders, and a
path without `/` is held against the file's name in any folder (`./*.md`: in the first one). What does not
fit is not understood: it is reported, and grants nothing.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy import commands
from skills_agent.skills.policy.commands import Words
from skills_agent.skills.policy.matching import ANY, all_match, word_matches
from skills_agent.skills.policy.tool_names import OF_A_SKILL, TAKES_COMMAND, TAKES_PATH, names_here
from skills_agent.skills.text import one_line

_ENTRY: Final = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)(?:\((?P<argument>.*)\))?", re.DOTALL)
_SERVER: Final = re.compile(r"mcp__(?P<server>[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)(?:__(?P<tool>[\w*.-]+))?")
_INTERPRETERS: Final[Mapping[str, tuple[Words, ...]]] = {
    ".py": (("python",), ("python3",), ("uv", "run")),
    ".sh": (("sh",), ("bash",)),
    ".js": (("node",), ("bun",), ("deno", "run")),
    ".mjs": (("node",), ("bun",), ("deno", "run")),
    ".ts": (("node",), ("bun",), ("deno", "run")),
}
"""How a command names a script that `run_script` would run."""
MAX_SHOWN: Final = 120
"""Characters of an entry in a message about it."""


class EntryNotUnderstoodError(SkillError):
    """An entry of `allowed-tools` or `disallowed-tools` that does not fit the grammar."""

    code: ClassVar[str] = "entry-not-understood"

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason
        super().__init__(f"`{one_line(text, MAX_SHOWN)}` is not understood: {reason}.")


class Call(NamedTuple):
    """One tool call, as policy sees it."""

    tool: str
    args: Mapping[str, Any]

    @property
    def skill(self) -> str | None:
        """Return the skill that the call names; None for a call that is about none."""
        name = self.args.get("skill") if self.tool in OF_A_SKILL else None
        return name if isinstance(name, str) else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry that was understood."""

    text: str
    tools: frozenset[str] = frozenset()
    server_tool: str = ""
    """Pattern of the names of an MCP server's tools; empty where the entry names no server."""
    command: Words | None = None
    path: Words | None = None

    def names(self, tool: str) -> bool:
        """Tell whether the entry speaks of a tool, whatever its arguments."""
        if self.server_tool:
            return word_matches(self.server_tool, tool)
        return tool in self.tools

    @property
    def is_whole(self) -> bool:
        """Tell whether it speaks of every call of its tools."""
        return self.command is None and self.path is None

    def permits(self, call: Call, skill: str | None = None) -> bool:
        """Tell whether a call is surely what the entry says.

        With an argument, an entry of a skill speaks of that skill's own files and scripts alone.
        """
        if not self.names(call.tool):
            return False
        if self.is_whole:
            return True
        if call.skill is not None and skill is not None and call.skill != skill:
            return False
        if self.path is not None:
            parts = _parts(call)
            return parts is not None and all_match(self.path, parts)
        pattern = self.command or ()
        return any(commands.permits(pattern, words) for words in _plain_forms(call))

    def may_mean(self, call: Call) -> bool:
        """Tell whether a call may be what the entry says: for bans, so what cannot be told counts as yes."""
        if not self.names(call.tool):
            return False
        if self.path is not None:
            parts = _parts(call)
            return parts is None or all_match(self.path, parts)
        if self.command is None:
            return True
        text = call.args.get("command")
        if call.tool not in OF_A_SKILL and isinstance(text, str):
            return commands.touches(self.command, text)
        forms = _plain_forms(call)
        return not forms or any(commands.touches_words(self.command, words) for words in forms)


@lru_cache(maxsize=4096)
def parse_entry(text: str) -> Entry:
    """Return what an entry says. Raises EntryNotUnderstoodError."""
    text = text.strip()
    if text.startswith("mcp__"):
        return _server_entry(text)
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise EntryNotUnderstoodError(text, "an entry is the name of a tool, or name(pattern)")
    name, argument = found["name"], found["argument"]
    entry = Entry(text, tools=names_here(name))
    if argument is None or argument.strip() in {"*", "**"}:
        return entry
    if name.lower() in TAKES_COMMAND:
        if (pattern := commands.command_pattern(argument)) is not None:
            return replace(entry, command=pattern)
        raise EntryNotUnderstoodError(
            text, "in parentheses stands one plain command that begins with a program, as in `git diff *`"
        )
    if name.lower() in TAKES_PATH:
        if (path := _path_pattern(argument)) is not None:
            return replace(entry, path=path)
        raise EntryNotUnderstoodError(text, "in parentheses stands a relative path, as in `scripts/*.py`")
    raise EntryNotUnderstoodError(text, f"nothing is known of what {name} takes in parentheses")


@lru_cache(maxsize=4096)
def parse_ban(text: str) -> Entry:
    """Return what an entry forbids: a tool as a whole where only its parenthesis is not understood.

    Raises EntryNotUnderstoodError.
    """
    try:
        return parse_entry(text)
    except EntryNotUnderstoodError:
        return replace(parse_entry(text.partition("(")[0]), text=text.strip())


def understood(texts: Iterable[str], parse: Callable[[str], Entry] = parse_entry) -> tuple[Entry, ...]:
    """Return the entries that are understood; the others are reported at discovery and grant nothing."""
    entries = []
    for text in texts:
        with suppress(EntryNotUnderstoodError):
            entries.append(parse(text))
    return tuple(entries)


def faults(texts: Iterable[str]) -> tuple[EntryNotUnderstoodError, ...]:
    """Return what is wrong with the entries that are not understood."""
    found = []
    for text in texts:
        try:
            parse_entry(text)
        except EntryNotUnderstoodError as error:
            found.append(error)
    return tuple(found)


def exact_entry(call: Call) -> str | None:
    """Return the entry that permits just this call's command or path; None where none can be written."""
    written = understood(_spellings(call))
    return next((entry.text for entry in written if entry.permits(call)), None)


def _server_entry(text: str) -> Entry:
    found = _SERVER.fullmatch(text)
    if found is None:
        raise EntryNotUnderstoodError(text, "an MCP tool is mcp__server, mcp__server__tool or mcp__server__*")
    return Entry(text, server_tool=f"mcp__{found['server']}__{found['tool'] or '*'}")


def _path_pattern(text: str) -> Words | None:
    plain = text.strip()
    is_anchored = plain.startswith("./")
    plain = plain.removeprefix("./")
    if not plain or plain.startswith(("/", "~")) or re.search(r"[\s\0\\?\[\]{}$`\"'<>|;&]", plain):
        return None
    parts = plain.rstrip("/").split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return None
    spread = [ANY if part == "**" else part for part in parts]
    return tuple(spread) if is_anchored or len(parts) > 1 else (ANY, *spread)


def _parts(call: Call) -> Words | None:
    """Return the parts of the path that a call is about; None for one that leads who knows where."""
    path = call.args.get("path", "." if call.tool in {"list_dir", "grep"} else None)
    if not isinstance(path, str) or "\0" in path or path.startswith("/") or ".." in path.split("/"):
        return None
    plain = posixpath.normpath(path)
    return () if plain == "." else tuple(plain.split("/"))


def _plain_forms(call: Call) -> Sequence[Words]:
    """Return the plain commands of a call: one, or the ways to call a script; none if it is unclear."""
    if call.tool not in OF_A_SKILL:
        words = commands.plain_command(text) if isinstance(text := call.args.get("command"), str) else None
        return [words] if words else []
    parts, args = _parts(call), _texts(call.args.get("args", ()))
    if not parts or args is None:
        return []
    path = "/".join(parts)
    ways = _INTERPRETERS.get(posixpath.splitext(path)[1], ())
    return [(*way, spelled, *args) for way in ((), *ways) for spelled in (path, f"./{path}")]


def _texts(value: object) -> Words | None:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        return None
    return tuple(value)


def _spellings(call: Call) -> Iterable[str]:
    command, path = call.args.get("command"), call.args.get("path")
    if call.tool in TAKES_COMMAND and isinstance(command, str) and "*" not in command:
        yield f"{call.tool}({command.strip()})"
    if call.tool in TAKES_PATH and isinstance(path, str) and "*" not in path:
        yield f"{call.tool}({path if '/' in path else f'./{path}'})"
