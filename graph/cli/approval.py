"""Show a person the calls of an open question, and take the answers."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from textwrap import wrap
from typing import Any, Final

import click
from langgraph.types import Command, Interrupt
from rich.cells import chop_cells

from skills_agent.graph.cli.printing import line_of
from skills_agent.nodes.approval_facts import contents_of
from skills_agent.nodes.interrupts import UNKNOWN
from skills_agent.nodes.policy import Policy
from skills_agent.skills.policy.approval_text import INDENT, plain, whole
from skills_agent.skills.visible import visible

Request = Mapping[str, Any]
"""One call of a question: `name`, `args` and `description`."""
Decision = dict[str, Any]

VIEW_ALL: Final = "; v: view all"
_LATER: Final = "(v: view all of it, Ctrl-C: later)"
_KEYS: Final = f"[a]pprove, [d]o not ask again, [r]eject [message], [e]dit {_LATER}"
_KEYS_OF_UNKNOWN: Final = f"[a]gain: run it again, [l]eave it [message] {_LATER}"
_APPLY_KEYS: Final = f"[a]pprove: apply them, [r]eject: drop them [message] {_LATER}"
_KEYS_OF_WORDS: Final = "Type your answer, or the number of a choice (Ctrl-C: later)"
_SCOPES: Final = (
    "Do not ask again for this [s]kill, in this [t]hread, or for a pattern, as run_script(scripts/*.py): "
)
_WORD: Final = re.compile(r"\[(\w)\](\w+)")
"""What the keys say that may be typed."""
_CHANGED: Final = re.compile(rf"(?m)^ +{INDENT}([-+@]).*$")


class Question:
    """An open question: its calls, and how it is answered."""

    def __init__(self, interrupt: Interrupt) -> None:
        """Read the value of an interrupt: a HITLRequest of langchain."""
        self.id = interrupt.id
        self.requests: Sequence[Request] = interrupt.value["action_requests"]
        reviews = interrupt.value["review_configs"]
        takes = {decision for review in reviews for decision in review["allowed_decisions"]}
        self.is_for_words = "respond" in takes
        """It is the agent's own, which a person answers in words."""
        calls = "this call" if len(self.requests) == 1 else f"these {len(self.requests)} calls"
        self._title, keys = f"Approval needed for {calls}:", _KEYS
        self.does = "run"
        """What an approval does to it."""
        if self.is_for_words:
            self._title, keys = "The agent asks:", _KEYS_OF_WORDS
        elif "edit" not in takes and all(UNKNOWN in request for request in self.requests):
            self._title = "A call was cut off in the middle. Run it again, or leave it?"
            keys = _KEYS_OF_UNKNOWN
        elif "edit" not in takes and all(each["args"].keys() == {"changes"} for each in self.requests):
            self._title, keys, self.does = "Apply what it changed?", _APPLY_KEYS, "apply"
        self.words = [*map("".join, _WORD.findall(keys)), "view", "yes", "no"]
        """What may be typed, or the beginning of it; the first that fits counts."""
        self.keys = "\n".join(_wrapped(keys))
        """They as they are shown, in lines that fit the terminal."""

    def text(self, more: str = "") -> str:
        """Return what would run and why it is asked about; what is cut ends with `more`."""
        return "\n\n".join([self._title, *(_shown(request, more) for request in self.requests)])


def make_answer(interrupts: Sequence[Interrupt], decision: Decision | list[Any]) -> Command[Any]:
    """Answer every request with one decision, or one by one with those of a list.

    Raises UsageError for a list of another length.
    """
    questions = [*map(Question, interrupts)]
    number = sum(len(question.requests) for question in questions)
    decisions = decision if isinstance(decision, list) else [decision] * number
    if len(decisions) != number:
        raise click.UsageError(f"open calls: {number}, decisions: {len(decisions)}")
    left = iter(decisions)
    return Command(
        resume={
            question.id: {"decisions": list(islice(left, len(question.requests)))} for question in questions
        }
    )


def ask_person(interrupts: Sequence[Interrupt], policy: Policy) -> Command[Any] | None:
    """Ask on the terminal; None when the person leaves the questions open."""
    decisions: list[Decision] = []
    _drop_typed_ahead()
    try:
        for question in map(Question, interrupts):
            click.echo(f"\n{question.text(VIEW_ALL)}\n{question.keys}")
            decisions += [_ask(question, request, policy) for request in question.requests]
    except (EOFError, KeyboardInterrupt):
        click.echo()
        return None
    return make_answer(interrupts, decisions)


def _drop_typed_ahead() -> None:
    """Forget what was typed before the question was on the screen: it is no answer to it."""
    import termios  # Windows has none, and imports this module

    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _shown(request: Request, more: str = "") -> str:
    """Return what would run and why it is asked about, as a terminal shows it; a diff in colours."""
    description = visible(str(request.get("description") or ""), "program")
    text = _indented(plain(description, more))
    return _CHANGED.sub(_coloured, text) if "```diff" in description and sys.stdout.isatty() else text


def _coloured(line: re.Match[str]) -> str:
    return click.style(line[0], fg={"+": "green", "-": "red", "@": "cyan"}[line[1]])


def _indented(text: str) -> str:
    return "\n".join(f"  {part}" for line in text.split("\n") for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """Return a line in parts that fit the terminal; ours between words, and none of a content at the edge."""
    if not sys.stdout.isatty():
        return [line]
    room = max((os.get_terminal_size().columns or 80) - len(INDENT) - 3, 10)
    if not line.startswith(INDENT):
        words = wrap(line, room, break_on_hyphens=False, break_long_words=False)
        return [part for word in words for part in chop_cells(word, room)] or [line]
    return [f"{INDENT}{part}" for part in chop_cells(line.removeprefix(INDENT), room) or [""]]


def _ask(question: Question, request: Request, policy: Policy) -> Decision:
    if question.is_for_words:
        while not (words := input("answer: ").strip()):
            pass
        return {"type": "respond", "message": words}
    name = f"{line_of(str(request['name']))} " if len(question.requests) > 1 else ""
    is_seen = VIEW_ALL not in plain(str(request.get("description") or ""), VIEW_ALL)
    while True:
        typed, _, rest = input(f"{name}? ").strip().partition(" ")
        word = next((each for each in question.words if typed and each.startswith(typed.lower())), None)
        if word is None:
            unknown = f"There is no answer {line_of(typed, 40)!r}. The answers are:\n" if typed else ""
            click.echo(f"{unknown}{question.keys}")
        elif word == "view":
            click.echo(f"\n{_shown(request)}\n{question.keys}")
            is_seen = True
        elif (decision := _decision(word, request, rest.strip(), policy)) is not None:
            if is_seen or decision["type"] != "approve":
                return decision
            click.echo("That is not possible: not all of it was shown yet; v shows all.")


def _decision(word: str, request: Request, rest: str, policy: Policy) -> Decision | None:
    if word in {"approve", "again", "yes"}:
        return {"type": "approve"}
    if word in {"reject", "leave", "no"}:
        return {"type": "reject", "message": rest}
    if word == "edit":
        return _edit(request, rest, policy)
    while not (typed := rest or input(_SCOPES).strip()):
        pass
    scope = next((each for each in ("skill", "thread") if each.startswith(typed.lower())), "")
    return {"type": "approve", "grant": {"scope": scope} if scope else {"scope": "pattern", "pattern": typed}}


def _edit(request: Request, text: str, policy: Policy) -> Decision | None:
    """Take other arguments; None where the person leaves them as they are."""
    from skills_agent.graph.cli.prompt import TextPrompt

    begun = text or arguments_text(request["args"])
    while True:
        if not text:
            click.echo("Edit the arguments. Enter: done, Esc-Enter: new line, Ctrl-C: leave them as they are")
            try:
                text = begun = TextPrompt().read("", begun=begun)
            except KeyboardInterrupt:
                return None
        try:
            args = json.loads(text)
            if isinstance(args, dict):
                shows = whole(contents_of(policy.grammar.call(request["name"], args), policy))
                click.echo(f"This runs instead:\n{_indented(shows)}")
                return {"type": "edit", "edited_action": {"name": request["name"], "args": args}}
            click.echo("The arguments must be a JSON object")
        except (ValueError, RecursionError) as error:
            click.echo(f"That is not JSON: {error}")
        text = ""


def arguments_text(args: Mapping[str, Any]) -> str:
    """Return arguments as JSON to be edited; a character that nobody can see is written as `\\u202e`."""
    text = json.dumps(args, indent=2, ensure_ascii=False)
    return "".join(each if each == "\n" or visible(each) == each else json.dumps(each)[1:-1] for each in text)
