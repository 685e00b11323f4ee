"""Show a person the calls of an open question, and take the answers."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import click
from langgraph.types import Command, Interrupt
from rich.cells import chop_cells

from skills_agent.graph.cli.printing import line_of, page
from skills_agent.graph.hooks import first
from skills_agent.nodes.asking import UNKNOWN
from skills_agent.skills.policy.grants import grant_fault
from skills_agent.skills.policy.lines import NO_LINES
from skills_agent.skills.policy.patterns import NETWORK, Grammar
from skills_agent.skills.policy.question import INDENT, plain
from skills_agent.skills.visible import visible

Request = Mapping[str, Any]
"""One call of a question: `name`, `args` and `description`."""
Decision = Mapping[str, Any]
View = Callable[[str, Mapping[str, Any]], str]
"""Returns all of a call that a person has to look at, uncut, from its tool and its arguments."""

VIEW_ALL: Final = "; v: view all"
_KEYS: Final = (
    "[a]pprove, [r]eject [message], [e]dit, [v]iew all, [s]top here\n"
    "and do not ask again: for this s[k]ill, [p]attern [ENTRY ...], for this [t]hread"
)
_KEYS_OF_UNKNOWN: Final = "[a]gain: run it again, [l]eave it [message], [v]iew all, [s]top here"
_KEYS_OF_WORDS: Final = "Type your answer, or the number of a choice; Ctrl-D: later"
_WORDS: Final = (
    *("approve", "again", "reject", "leave", "edit", "view", "stop", "skill", "k", "pattern", "thread"),
    *("yes", "no"),
)
"""What may be typed, or the beginning of it; the first that fits counts."""


def question_text(interrupt: Interrupt, **more: str) -> str:
    """Return what would run, with which arguments, and why it is asked about."""
    requests = _requests(interrupt)
    calls = "this call" if len(requests) == 1 else f"these {len(requests)} calls"
    texts = (plain(visible(str(each.get("description") or ""), "program"), **more) for each in requests)
    if is_for_words(interrupt):
        return "\n\n".join(["The agent asks:", *map(_indented, texts)])
    title = f"Approval needed for {calls}:"
    if _is_about_unknown(interrupt):
        title = "A call was cut off in the middle. Run it again, or leave it?"
    return "\n\n".join([title, *map(_indented, texts)])


def make_answer(interrupts: Sequence[Interrupt], decision: Decision | list[Any]) -> Command[Any]:
    """Answer every request with one decision, or one by one with those of a list.

    Raises UsageError for a list of another length, and where a request does not take the one decision.
    """
    requests = [(interrupt, request) for interrupt in interrupts for request in _requests(interrupt)]
    if not isinstance(decision, list):
        for interrupt, request in requests:
            if fault := _fault(interrupt, request, decision):
                raise click.UsageError(f"the question cannot be answered so: {fault}.")
    decisions = decision if isinstance(decision, list) else [decision] * len(requests)
    if len(decisions) != len(requests):
        raise click.UsageError(f"open calls: {len(requests)}, decisions: {len(decisions)}")
    left = iter(decisions)
    answers = {
        interrupt.id: {"decisions": list(islice(left, len(_requests(interrupt))))} for interrupt in interrupts
    }
    return Command(resume=answers)


def ask_person(interrupts: Sequence[Interrupt], view: View, workspace: Path) -> Command[Any] | None:
    """Ask on the terminal; None when the person leaves the questions open."""
    decisions: list[Decision] = []
    _drop_typed_ahead()
    try:
        for interrupt in interrupts:
            click.echo(f"\n{question_text(interrupt, more=VIEW_ALL)}\n{_keys_of(interrupt)}")
            if is_for_words(interrupt):
                decisions.append(_ask_for_words())
                continue
            decisions += [_ask(interrupt, request, view, workspace) for request in _requests(interrupt)]
    except (EOFError, click.Abort):
        return None
    return make_answer(interrupts, decisions)


def _drop_typed_ahead() -> None:
    """Forget what was typed before the question was on the screen: it is no answer to it."""
    import termios  # Windows has none, and imports this module

    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _requests(interrupt: Interrupt) -> Sequence[Request]:
    requests: Sequence[Request] = interrupt.value["action_requests"]
    return requests


def is_for_words(interrupt: Interrupt) -> bool:
    """Return whether a question is the agent's own, which a person answers in words."""
    return any("respond" in review["allowed_decisions"] for review in interrupt.value["review_configs"])


def _ask_for_words() -> Decision:
    while not (words := input("answer: ").strip()):
        pass
    return {"type": "respond", "message": words}


def _is_about_unknown(interrupt: Interrupt) -> bool:
    """Return whether a question is nothing but what becomes of a call that was cut off."""
    return not _takes_edit(interrupt) and all(UNKNOWN in each for each in _requests(interrupt))


def _keys_of(interrupt: Interrupt) -> str:
    if is_for_words(interrupt):
        return _KEYS_OF_WORDS
    return _KEYS_OF_UNKNOWN if _is_about_unknown(interrupt) else _KEYS


def _takes_edit(interrupt: Interrupt) -> bool:
    return any("edit" in review["allowed_decisions"] for review in interrupt.value["review_configs"])


def _indented(text: str) -> str:
    return "\n".join(f"  {part}" for line in text.split("\n") for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """Return a line in parts that fit the terminal; ours between words, and none of a content at the edge."""
    if not sys.stdout.isatty():
        return [line]
    room = (os.get_terminal_size().columns or 80) - len(INDENT) - 3
    if not line.startswith(INDENT):
        words = wrap(line, max(room, 10), break_on_hyphens=False, break_long_words=False)
        return [part for each in words for part in chop_cells(each, max(room, 10))] or [line]
    return [f"{INDENT}{part}" for part in chop_cells(line.removeprefix(INDENT), max(room, 10)) or [""]]


def _ask(interrupt: Interrupt, request: Request, view: View, workspace: Path) -> Decision:
    name = f"{line_of(str(request['name']))} " if len(_requests(interrupt)) > 1 else ""
    is_seen = VIEW_ALL not in plain(str(request.get("description") or ""), VIEW_ALL)
    while True:
        typed, _, rest = input(f"{name}? ").strip().partition(" ")
        word = next((word for word in _WORDS if typed and word.startswith(typed.lower())), None)
        if word is None:
            unknown = f"There is no answer {line_of(typed, 40)!r}. The answers are:\n" if typed else ""
            click.echo(f"{unknown}{_keys_of(interrupt)}")
            continue
        if word == "view":
            page(f"{view(request['name'], request['args'])}\n", workspace)
            is_seen = True
            continue
        decision = _decision(word, request, rest.strip())
        if decision is None:
            continue
        fault = _fault(interrupt, request, decision)
        if fault is None and decision["type"] == "approve" and not is_seen:
            fault = "not all of it was shown yet; v shows all"
        if fault is None:
            if decision["type"] == "edit":
                edited = view(request["name"], decision["edited_action"]["args"])
                click.echo(f"This runs instead:\n{_indented(edited)}")
            return decision
        click.echo(f"That is not possible: {line_of(fault)}.")


def _decision(word: str, request: Request, rest: str) -> Decision | None:
    match word:
        case "approve" | "again" | "yes":
            return {"type": "approve"}
        case "reject" | "leave" | "no":
            return {"type": "reject", "message": rest}
        case "edit":
            return _edit(request, rest)
        case "skill" | "k":
            return {"type": "approve", "grant": {"scope": "skill"}}
        case "thread":
            return {"type": "approve", "grant": {"scope": "thread"}}
        case "pattern":
            pattern = rest or _ask_pattern(request)
            return {"type": "approve", "grant": {"scope": "pattern", "pattern": pattern}}
        case _:
            raise click.Abort  # stop: the person decides later


def _edit(request: Request, rest: str) -> Decision | None:
    if rest:
        if fault := fault_of_arguments(rest):
            click.echo(f"{fault[1]}. To edit the arguments that are there: e")
            return None
    else:
        from skills_agent.graph.cli.prompt import TextPrompt

        click.echo("Edit the arguments. Enter: done, Esc-Enter: new line, Ctrl-C: leave them as they are")
        try:
            rest = TextPrompt().read("", begun=arguments_text(request["args"]), fault_of=fault_of_arguments)
        except KeyboardInterrupt:
            return None
    return {"type": "edit", "edited_action": {"name": request["name"], "args": json.loads(rest)}}


def arguments_text(args: Mapping[str, Any]) -> str:
    """Return arguments as JSON to be edited; a character that nobody can see is written as `\\u202e`."""
    text = json.dumps(args, indent=2, ensure_ascii=False)
    return "".join(each if each == "\n" or visible(each) == each else json.dumps(each)[1:-1] for each in text)


def fault_of_arguments(text: str) -> tuple[int, str] | None:
    """Return where a text stops to be a JSON object, in characters, and why."""
    try:
        args = json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos, f"That is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return 0, f"That is not JSON that can be read: {error}"
    return None if isinstance(args, dict) else (0, "The arguments must be a JSON object")


@cache
def _grammar() -> Grammar:
    return Grammar(lines=first("lines", NO_LINES))


def _ask_pattern(request: Request) -> str:
    call = _grammar().call(request["name"], request["args"])
    exact = _grammar().exact_entries(call) or ""
    offer = f" [{line_of(exact)}]" if exact else ""
    hosts = " ".join(f"{NETWORK}({host})" for host in call.hosts)
    alone = f" ({hosts}: the network alone)" if hosts else ""
    return input(f"entries as in allowed-tools{alone}{offer}: ").strip() or exact


def _fault(interrupt: Interrupt, request: Request, decision: Decision) -> str | None:
    takes_edit = any(
        review["action_name"] == request["name"] and "edit" in review["allowed_decisions"]
        for review in interrupt.value["review_configs"]
    )
    if is_for_words(interrupt) and decision["type"] == "approve":
        return "it is a question of the agent; answer it with --answer TEXT, or --reject"
    if decision["type"] == "respond" and not is_for_words(interrupt):
        return "it is no question of the agent; approve or reject it"
    if decision["type"] == "edit" and not takes_edit:
        return "this call cannot be changed here; approve or reject it"
    grant = decision.get("grant")
    if grant is None:
        return None
    # A question that takes no other call is about one that was cut off, or about a skill to be loaded.
    return grant_fault(
        grant["scope"],
        grant.get("pattern"),
        _grammar().call(request["name"], request["args"]),
        is_outcome_unknown=not takes_edit,
    )
