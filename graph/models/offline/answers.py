"""What the offline model says. Every answer ends with what it is."""

import re
import shlex
from collections.abc import Mapping
from itertools import dropwhile
from typing import Any

from langchain_core.messages import ToolMessage

from skills_agent.skills.library.listing import CatalogListing
from skills_agent.skills.text import one_line
from skills_agent.state.transcript import outcome_of

_NOTE = "(Offline model: not a language model, but fixed rules that chose the skill and what to run.)"
_MAX_LINES = 80
_MAX_SKILLS = 20
_MAX_TEXT = 200


def answer(lead: str, quoted: str = "") -> str:
    """Return a sentence and the text that it is about, cut at whole lines, with the note at the end."""
    return "\n\n".join([lead, *([_fence(quoted)] if quoted else []), _NOTE])


def tell_run(args: Mapping[str, Any], result: ToolMessage) -> str:
    """Answer from what a script printed, or from why it did not run."""
    passed = shlex.join(map(str, args.get("args") or ()))
    script = f"`{args.get('path')}` of the skill {args.get('skill')}"
    arguments = f" with `{passed}`" if passed else ""
    outcome = outcome_of(result)
    if result.status == "error" and not outcome:
        return answer(
            f"{script} was not run{arguments}. The reason given: {one_line(result.text, _MAX_TEXT)}"
        )
    # Notes of the agent stand before what came of it.
    ended, *lines = [*dropwhile(lambda line: line.startswith("["), result.text.split("\n"))] or [""]
    report = "\n".join(lines).removeprefix("stdout:\n") or "(nothing)"
    if outcome.get("exit_code") != 0:
        return answer(f"{script} did not succeed{arguments}: {ended}.", report)
    return answer(f"{script} was run{arguments}. Its output:", report)


def tell_no_skill_fits(listing: CatalogListing | None) -> str:
    """Answer that no skill fits, and list what there is."""
    if listing is None or not listing.lines:
        return answer("There are no skills here, and without one the offline model can do nothing.")
    skills = [line.skill for line in listing.lines[:_MAX_SKILLS]]
    lines = [f"- {skill.name}: {one_line(skill.description, _MAX_TEXT)}" for skill in skills]
    more = [f"- and {listing.total - len(lines)} more"] if listing.total > len(lines) else []
    return answer("\n".join(["No skill fits this request. These are available:\n", *lines, *more]))


def tell_not_loaded(name: str, reason: str) -> str:
    """Answer that the skill which fits, or which the user named, could not be loaded."""
    return answer(f"The skill {name} could not be loaded: {one_line(reason, _MAX_TEXT)}")


def _fence(text: str) -> str:
    lines = text.strip("\n").splitlines()
    shown = "\n".join(lines[:_MAX_LINES])
    more = f"\n\n[{len(lines) - _MAX_LINES} more lines]" if len(lines) > _MAX_LINES else ""
    ticks = "`" * (max((len(run) for run in re.findall(r"`{3,}", shown)), default=2) + 1)
    return f"{ticks}\n{shown}\n{ticks}{more}"
