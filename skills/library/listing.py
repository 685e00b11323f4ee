"""Choose what of the catalog a prompt shows within a budget of characters."""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.text import escape_markup, one_line

_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
_FRAME: Final = len("- : \n")
_NAME_ONLY: Final = 2
"""The last of the steps in which a skill is shown with less."""


class ListedSkill(NamedTuple):
    """A line of the catalog."""

    skill: SkillMetadata
    description: str | None
    """One line, not escaped; None where only the name is shown."""


class CatalogListing(NamedTuple):
    """The lines that fit, in the order given, and how many skills were left out."""

    lines: tuple[ListedSkill, ...]
    omitted: int
    total: int


def fit(skills: Sequence[SkillMetadata], budget_chars: int, always: Collection[str] = ()) -> CatalogListing:
    """Fit skills into a budget of characters; the first in order are the last to lose anything.

    Descriptions go from whole to their first sentence, to nothing; only then are skills left out. Skills
    named in `always` (the loaded ones) are shown whole and cost nothing.
    """
    ladders = [_steps(skill) for skill in skills]
    paying = [ladder for skill, ladder in zip(skills, ladders, strict=True) if skill.name not in always]
    levels = iter(_levels(paying, budget_chars))
    lines: list[ListedSkill] = []
    for skill, ladder in zip(skills, ladders, strict=True):
        level = 0 if skill.name in always else next(levels)
        if level is not None:
            lines.append(ListedSkill(skill, ladder[level].text))
    return CatalogListing(tuple(lines), len(skills) - len(lines), len(skills))


class _Step(NamedTuple):
    """One way to show a skill, and the characters it takes."""

    text: str | None
    cost: int


_Steps = tuple[_Step, _Step, _Step]


def _steps(skill: SkillMetadata) -> _Steps:
    """Return a skill as shown whole, by its first sentence, and by its name."""
    name = len(escape_markup(skill.name)) + _FRAME
    whole = one_line(skill.description)
    first = first_sentence(whole)
    return (
        _Step(whole, name + len(escape_markup(whole))),
        _Step(first, name + len(escape_markup(first))),
        _Step(None, name),
    )


def _levels(ladders: Sequence[_Steps], budget: int) -> list[int | None]:
    """Choose a step for each skill: the richest that all can have, then better ones while budget is left."""
    costs = [sum(ladder[level].cost for ladder in ladders) for level in range(_NAME_ONLY + 1)]
    level = next((level for level, cost in enumerate(costs) if cost <= budget), None)
    shown = len(ladders) if level is not None else _names_that_fit(ladders, budget // 2)
    start = _NAME_ONLY if level is None else level
    left = budget - sum(ladder[start].cost for ladder in ladders[:shown])
    levels: list[int | None] = []
    for ladder in ladders[:shown]:
        better = next(
            level for level in range(start + 1) if ladder[level].cost - ladder[start].cost <= max(left, 0)
        )
        left -= ladder[better].cost - ladder[start].cost
        levels.append(better)
    return levels + [None] * (len(ladders) - shown)


def _names_that_fit(ladders: Sequence[_Steps], budget: int) -> int:
    """Count the first names that fit: half of the budget, so that the first can keep their descriptions."""
    for number, ladder in enumerate(ladders):
        budget -= ladder[_NAME_ONLY].cost
        if budget < 0:
            return number
    return len(ladders)


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]
