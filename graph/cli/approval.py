"""Ask a person about calls, on a terminal; or print what would be asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import click

from skills_agent.graph.cli.outcome import Question
from skills_agent.graph.cli.printing import line_of, shown
from skills_agent.graph.cli.session import Decisions
from skills_agent.skills.policy.grants import Scope, grant_fault
from skills_agent.skills.policy.patterns import GRAMMAR

Decision = Mapping[str, Any]
CHOICES = "[a]pprove, [r]eject [message], [e]dit, [s]top here"
ALWAYS = "and do not ask again: for this s[k]ill, [p]attern [ENTRY], for this [t]hread"
MAX_ARGUMENT_LINES = 20


class StopAsking(Exception):  # noqa: N818 - no error: the person wants to decide later
    """The person leaves the question open."""


def question_text(question: Question) -> str:
    """Return what would run, with which arguments, and why it is asked about."""
    calls = "this call" if len(question.requests) == 1 else f"these {len(question.requests)} calls"
    return "\n".join([f"Approval needed for {calls}:", *(_request_text(each) for each in question.requests)])


def all_alike(questions: Sequence[Question], decision: Decision) -> Decisions:
    """Answer every request of every question with the same decision."""
    return {question.id: [decision] * len(question.requests) for question in questions}


def each_its_own(questions: Sequence[Question], decisions: Sequence[Any]) -> Decisions:
    """Answer the requests of the questions one by one, in order. Raises UsageError for another number."""
    wanted = sum(len(question.requests) for question in questions)
    if len(decisions) != wanted:
        raise click.UsageError(f"{wanted} calls are open, and there are {len(decisions)} decisions")
    left = iter(decisions)
    return {question.id: list(islice(left, len(question.requests))) for question in questions}


def ask_person(questions: Sequence[Question]) -> Decisions | None:
    """Ask on the terminal; None when the person leaves the questions open."""
    answers: dict[str, list[Decision]] = {}
    try:
        for question in questions:
            click.echo(f"\n{question_text(question)}\n{CHOICES}\n{ALWAYS}")
            answers[question.id] = [_ask(request, question) for request in question.requests]
    except (StopAsking, EOFError, click.Abort):
        return None
    return answers


def _request_text(request: Mapping[str, Any]) -> str:
    lines = [f"  {line_of(str(request['name']))}  ({line_of(str(request.get('description') or ''))})"]
    for name, value in request["args"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        shown_lines = shown(text).splitlines() or [""]
        cut = shown_lines[:MAX_ARGUMENT_LINES]
        if len(shown_lines) > len(cut):
            cut.append(f"[{len(shown_lines) - len(cut)} more lines]")
        lines.append(f"    {line_of(str(name))}: " + "\n      ".join(cut))
    return "\n".join(lines)


def _ask(request: Mapping[str, Any], question: Question) -> Decision:
    several = f"{line_of(str(request['name']))} " if len(question.requests) > 1 else ""
    while True:
        word, _, rest = input(f"{several}? ").strip().partition(" ")
        for choice, answer in _ANSWERS.items():
            if word and choice.startswith(word.lower()):
                decision = answer(request, rest.strip())
                if decision is not None and _fits(decision, request, question):
                    return decision
                break
        else:
            click.echo(f"{CHOICES}\n{ALWAYS}")


def _fits(decision: Decision, request: Mapping[str, Any], question: Question) -> bool:
    """Say what a question does not take; it is asked again then."""
    if decision["type"] == "edit" and not question.takes_edit(request):
        click.echo("This call cannot be changed here: approve or reject it.")
        return False
    if "grant" in decision and not question.takes_grant(request):
        click.echo("The outcome of this call is unknown: the answer to that holds for it alone.")
        return False
    return True


def _approve(request: Mapping[str, Any], rest: str) -> Decision | None:
    del request, rest
    return {"type": "approve"}


def _reject(request: Mapping[str, Any], rest: str) -> Decision | None:
    del request
    return {"type": "reject", "message": rest}


def _edit(request: Mapping[str, Any], rest: str) -> Decision | None:
    """Return the call with other arguments; None (ask again) when they are no JSON object."""
    if not rest:
        click.echo(f"now:  {line_of(json.dumps(request['args'], ensure_ascii=False))}")
        rest = input("new arguments as JSON: ")
    try:
        args = json.loads(rest)
    except ValueError as error:
        click.echo(f"That is not JSON ({error}).")
        return None
    if not isinstance(args, dict):
        click.echo("The arguments must be a JSON object.")
        return None
    return {"type": "edit", "edited_action": {"name": request["name"], "args": args}}


def _for_skill(request: Mapping[str, Any], rest: str) -> Decision | None:
    del rest
    return _granted(request, "skill", None)


def _for_pattern(request: Mapping[str, Any], rest: str) -> Decision | None:
    """Return an approval for a pattern; that of just this call is offered where one can be written."""
    exact = GRAMMAR.exact_entry(GRAMMAR.call(request["name"], request["args"])) or ""
    if not rest:
        offer = f" [{line_of(exact)}]" if exact else ""
        rest = input(f"entry as in allowed-tools{offer}: ").strip() or exact
    return _granted(request, "pattern", rest)


def _for_thread(request: Mapping[str, Any], rest: str) -> Decision | None:
    del rest
    return _granted(request, "thread", None)


def _granted(request: Mapping[str, Any], scope: Scope, pattern: str | None) -> Decision | None:
    """Return an approval that holds for more than this call; None (ask again) where it does not fit."""
    if fault := grant_fault(scope, pattern, GRAMMAR.call(request["name"], request["args"])):
        click.echo(f"That cannot be granted: {line_of(fault)}.")
        return None
    return {"type": "approve", "grant": {"scope": scope, "pattern": pattern}}


def _stop(request: Mapping[str, Any], rest: str) -> Decision | None:
    del request, rest
    raise StopAsking


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any], str], Decision | None]] = {
    "approve": _approve,
    "reject": _reject,
    "edit": _edit,
    "stop": _stop,
    "skill": _for_skill,
    "k": _for_skill,
    "pattern": _for_pattern,
    "thread": _for_thread,
    "yes": _approve,
    "no": _reject,
}
