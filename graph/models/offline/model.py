"""What the offline model does next, and what it says: once in a thread, what it is."""

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from typing_extensions import override

from skills_agent.graph.models.local import LocalChatModel, fingerprint
from skills_agent.graph.models.offline.usage import (
    MessageToken,
    Usage,
    fill,
    find_usages,
    query_of,
    read_message,
)
from skills_agent.nodes.model_call import ModelCall
from skills_agent.nodes.prompt import ShownSkills, instructions_of
from skills_agent.skills.errors import list_names
from skills_agent.skills.library.listing import CatalogListing
from skills_agent.skills.search.tokens import FUNCTION_WORDS
from skills_agent.skills.search.words import search_texts
from skills_agent.skills.text import one_line
from skills_agent.state.records import LoadedSkill, active_skills
from skills_agent.state.transcript import edited_args, is_synthetic, outcome_of

_NOTE = "(Offline model: fixed rules, no language model. To get a real one: skills-agent model)"
_MAX_LINES = 80
_MAX_TEXT = 200
_WORD = re.compile(r"\w+")
_SCRIPTS = (".py", ".sh", ".bash", ".js", ".mjs", ".rb", ".pl", ".ts")


class OfflineChatModel(LocalChatModel):
    """A chat model without a language model: rules that find a skill, run its script and quote the result.

    Where a message does not name what a command needs, it says what. The first answer of a thread says what
    made it.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    @override
    def reply(
        self, messages: Sequence[BaseMessage], tools: frozenset[str], records: ModelCall | None
    ) -> AIMessage:
        """Return the next tool call, or the answer."""
        transcript = records.messages if records else messages
        made = _next(transcript, records.skills if records else None, tools)
        mark = fingerprint(messages)
        if isinstance(made, str):
            has_said = any(isinstance(each, AIMessage) and _NOTE in each.text for each in transcript)
            return AIMessage(made if has_said else f"{made}\n\n{_NOTE}", id=f"offline-{mark}")
        name, args = made
        return AIMessage(
            "", id=f"offline-{mark}", tool_calls=[tool_call(name=name, args=args, id=f"offline-{mark}-0")]
        )


_Call = tuple[str, dict[str, Any]]
_Result = tuple[Mapping[str, Any], ToolMessage]


def _next(transcript: Sequence[BaseMessage], shown: ShownSkills | None, tools: frozenset[str]) -> _Call | str:
    """Return the answer, or the tool to call. It never calls for the same thing twice."""
    text, results = _turn(transcript)
    if runs := [result for result in results if result[1].name == "run_script"]:
        return _tell_run(text, *runs[-1])
    ledger = active_skills(shown.ledger) if shown else {}
    first, _, rest = text.strip().partition(" ")
    # `/name` at the start of a message, which activates a skill, is no part of the task.
    is_activation = first.startswith("/") and first[1:].partition("@")[0] in ledger
    message = read_message(rest if is_activation else text)
    name = _fitting(message, shown)
    if forks := [result for result in results if (result[1].id or "").startswith("fork-")]:
        return forks[-1][1].text.partition(":\n")[2].removesuffix(f"\n\n{_NOTE}")
    loads = [result for result in results if result[1].name == "load_skill"]
    loaded = [str(args.get("name")).partition("@")[0] for args, _ in loads]
    if loaded and name not in loaded:
        name = loaded[0]
    if shown is None or name is None:
        return _tell_no_skill_fits(shown and shown.catalog.listing)
    if name in ledger:
        return _use(ledger[name], message, shown, tools)
    if loads or "load_skill" not in tools:
        reason = loads[-1][1].text if loads else "no tool to load skills is offered here."
        return f"The skill {name} could not be loaded: {one_line(reason, _MAX_TEXT)}"
    return "load_skill", {"name": name}


def _turn(transcript: Sequence[BaseMessage]) -> tuple[str, list[_Result]]:
    """Return the newest message of a person, and the results of the calls since, with their arguments."""
    text = ""
    calls: dict[str | None, dict[str, Any]] = {}
    results: list[_Result] = []
    for message in transcript:
        if isinstance(message, HumanMessage) and not is_synthetic(message):
            text, results = message.text, []
        elif isinstance(message, AIMessage):
            calls |= {call["id"]: call["args"] for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            results.append((edited_args(message) or calls.get(message.tool_call_id, {}), message))
    return text, results


def _fitting(message: Sequence[MessageToken], shown: ShownSkills | None) -> str | None:
    # A kind of file that no skill has can only help: without it, fewer words are unknown.
    words = [token for token in message if token.kind != "place"]
    queries = dict.fromkeys([query_of(message), query_of(words)])
    fitting = (shown.complete.fitting(query, shown.left_out) for query in queries if shown)
    return next((found[0].name for found in fitting if found), None)


def _use(
    skill: LoadedSkill, message: Sequence[MessageToken], shown: ShownSkills, tools: frozenset[str]
) -> _Call | str:
    name, instructions = skill["name"], instructions_of(skill)
    resources = shown.resources.get(name)
    files = resources["files"] if resources else []
    scripts = [file["path"] for file in files if file["type"] == "script" or file["path"].endswith(_SCRIPTS)]
    usage = _choose(find_usages(instructions, scripts), query_of(message))
    if usage is None:
        return _quoting(f"The skill {name} shows no command to run; its instructions are:", instructions)
    args, missing = fill(usage, message)
    if missing:
        places = " and ".join(f"`{place}`" for place in missing)
        return f"Please ask again and name {places}: the skill {name} would run `{usage.command}`."
    if "run_script" not in tools:
        lead = f"No script can be run here. The skill {name} would answer this by running:"
        return _quoting(lead, shlex.join([usage.script, *args]))
    return "run_script", {"skill": name, "path": usage.script, "args": args}


def _choose(usages: Sequence[Usage], query: str) -> Usage | None:
    """Return the command whose script is described most like the request: its synopsis, if there is one."""
    # Where commands are shown, a script that is only named is a part of another one, or a text to read.
    usages = [usage for usage in usages if " " in usage.command] or usages
    contexts: dict[str, str] = {}
    for usage in usages:
        contexts[usage.script] = f"{contexts.get(usage.script, usage.script)} {usage.context}"
    ranked = search_texts([*contexts.items()], query, 1) if len(contexts) > 1 else []
    script = ranked[0][0] if ranked else next(iter(contexts), None)
    own = [usage for usage in usages if usage.script == script]
    return min(own, key=lambda usage: (not usage.parts, not usage.is_synopsis), default=None)


def _tell_run(question: str, args: Mapping[str, Any], result: ToolMessage) -> str:
    """Answer from what a script printed, the line that fits the question first; or why it did not run."""
    passed = shlex.join(map(str, args.get("args") or ()))
    script = f"`{args.get('path')}` of the skill {args.get('skill')}"
    arguments = f" with `{passed}`" if passed else ""
    outcome = outcome_of(result)
    if result.status == "error" and not outcome:
        return f"{script} was not run{arguments}. The reason given: {one_line(result.text, _MAX_TEXT)}"
    # Notes of the agent stand before what came of it.
    ended, *lines = [*dropwhile(lambda line: line.startswith("["), result.text.split("\n"))] or [""]
    report = "\n".join(lines).removeprefix("stdout:\n") or "(nothing)"
    if outcome.get("exit_code") != 0:
        return _quoting(f"{script} did not succeed{arguments}: {ended}.", report)
    line = _fitting_line(lines, question)
    said = f"The skill {args.get('skill')} says: `{line}`\n\n" if line else ""
    return _quoting(f"{said}{script} was run{arguments}. Its output:", report)


def _fitting_line(lines: Sequence[str], question: str) -> str:
    """Return the line that has most words of a question, long ones first; empty where none has any."""
    asked = query_of([token for token in read_message(question) if token.kind != "place"])
    words = {*_WORD.findall(asked.lower())} - FUNCTION_WORDS
    # A heading says nothing, and a backtick would end the quotation.
    quotable = [line.strip() for line in lines if "`" not in line and not line.rstrip().endswith(":")]
    shared = {line: sum(map(len, words.intersection(_WORD.findall(line.lower())))) for line in quotable}
    best = max(quotable, key=lambda line: shared[line], default="")
    return best[:_MAX_TEXT] if shared.get(best) else ""


def _tell_no_skill_fits(listing: CatalogListing | None) -> str:
    """Answer that no skill fits, and list what there is."""
    if listing is None or not listing.lines:
        return "There are no skills here, and without one the offline model can do nothing."
    names = list_names([line.skill.name for line in listing.lines])
    return f"No skill fits this request. There are: {names}."


def _quoting(lead: str, text: str) -> str:
    """Return a sentence and the text that it is about, cut at whole lines."""
    lines = text.strip("\n").splitlines()
    shown = "\n".join(lines[:_MAX_LINES])
    more = f"\n\n[{len(lines) - _MAX_LINES} more lines]" if len(lines) > _MAX_LINES else ""
    ticks = "`" * (max((len(run) for run in re.findall(r"`{3,}", shown)), default=2) + 1)
    return f"{lead}\n\n{ticks}\n{shown}\n{ticks}{more}"
