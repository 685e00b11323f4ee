"""What the offline model says. Every answer ends with what it is."""

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any, NamedTuple

from langchain_core.messages import ToolMessage

from skills_agent.skills.library.listing import CatalogListing
from skills_agent.skills.text import one_line
from skills_agent.state.transcript import outcome_of

NOTE = "(Offline model: not a language model, but fixed rules that chose the skill and what to run.)"
MAX_LINES = 80
_MAX_SKILLS = 20
_MAX_TEXT = 200


class ToolResult(NamedTuple):
    """A call of this turn and what came back."""

    args: Mapping[str, Any]
    message: ToolMessage


def close(*paragraphs: str) -> str:
    """Return an answer of paragraphs, with the note at its end."""
    return "\n\n".join([*paragraphs, NOTE])


def tell_run(run: ToolResult) -> str:
    """Answer from what a script printed, or from why it did not run."""
    passed = run.args.get("args")
    arguments = f" with `{shlex.join(map(str, passed))}`" if isinstance(passed, list) and passed else ""
    script = f"`{run.args.get('path')}` of the skill {run.args.get('skill')}"
    outcome = outcome_of(run.message)
    if run.message.status == "error" and not outcome:
        reason = one_line(run.message.text, _MAX_TEXT)
        return close(f"{script} was not run{arguments}. The reason given: {reason}")
    # Notes of the agent stand before what came of it.
    ended, *lines = [*dropwhile(lambda line: line.startswith("["), run.message.text.split("\n"))] or [""]
    report = "\n".join(lines)
    if outcome.get("exit_code") != 0:
        return close(f"{script} did not succeed{arguments}: {ended}.", _bound(report))
    return close(f"{script} was run{arguments}. Its output:", _bound(report.removeprefix("stdout:\n")))


def ask_for(skill: str, command: str, missing: Sequence[str]) -> str:
    """Ask for what a command needs and the message does not name."""
    names = " and ".join(f"`{name}`" for name in missing)
    return close(f"Please name {names}: the skill {skill} answers this with `{command}`.")


def tell_call(skill: str, call: Sequence[str]) -> str:
    """Answer what would be run, where no tool to run scripts is offered."""
    lead = f"No script can be run here. The skill {skill} would answer this by running:"
    return close(lead, _fence(shlex.join(call)))


def tell_instructions(skill: str, instructions: str) -> str:
    """Answer with the instructions of a skill that shows no command."""
    return close(
        f"The skill {skill} shows no command to run; its instructions are the answer:", _bound(instructions)
    )


def tell_no_skill_fits(listing: CatalogListing | None) -> str:
    """Answer that no skill fits, and list what there is."""
    if listing is None or not listing.lines:
        return close("There are no skills here, and without one the offline model can do nothing.")
    skills = [each.skill for each in listing.lines[:_MAX_SKILLS]]
    lines = [f"- {skill.name}: {one_line(skill.description, _MAX_TEXT)}" for skill in skills]
    more = [f"- and {listing.total - len(lines)} more"] if listing.total > len(lines) else []
    return close(
        "No skill fits this request. These are available:",
        "\n".join([*lines, *more]),
        "Ask for one of these tasks, or name a skill: `/name` and what it should work on.",
    )


def tell_not_loaded(name: str, reason: str) -> str:
    """Answer that the skill which fits, or which the user named, could not be loaded."""
    reason = one_line(reason, _MAX_TEXT)
    return close(f"The skill {name} could not be loaded: {reason}")


def _bound(text: str) -> str:
    lines = text.strip("\n").splitlines() or ["(nothing)"]
    shown = "\n".join(lines[:MAX_LINES])
    more = f"\n\n[{len(lines) - MAX_LINES} more lines]" if len(lines) > MAX_LINES else ""
    # Markdown is meant to be read as such; everything else keeps its columns.
    return (shown if re.search(r"^#{1,4} \S", shown, re.MULTILINE) else _fence(shown)) + more


def _fence(text: str) -> str:
    ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
    return f"{'`' * ticks}\n{text}\n{'`' * ticks}"
