"""What of a catalog fits into a prompt: the same in every thread, whatever is asked there."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Final, NamedTuple

from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.text import cut, escape_markup, one_line

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
_OCCASION: Final = re.compile(
    r"\b(?:[Uu]sed?|USE)(?: (?!when)[\w'*-]+){0,4} (?:when|WHEN|whenever|if)\b"
    r"|\b(?:Trigger|TRIGGER|Activate|Invoke)\w*\b"
    r"|(?:^|(?<=[.!?] ))(?:Also use|Use|USE|When|Whenever)\b"
)
"""Where a description begins to say when its skill is for a task; 525 of 641 do (shared corpus)."""
_LEAST: Final = 80
"""Characters below which a part of a description says too little: then some are shown, others not at all."""
_LEAST_HEAD: Final = 15
_FRAME: Final = len("- : \n")


class ListedSkill(NamedTuple):
    """A line of the catalog."""

    skill: SkillMetadata
    description: str | None
    """One line, not escaped; None where only the name is shown."""


class CatalogListing(NamedTuple):
    """The lines that fit, by name, and how many skills were left out."""

    lines: tuple[ListedSkill, ...]
    omitted: int
    total: int
    is_whole: bool
    """Whether nothing was left out, and no description shortened."""


def fit(skills: Sequence[SkillMetadata], budget: int) -> CatalogListing:
    """Fit skills into a budget of characters; the first in order are the last to lose anything.

    Descriptions are cut to one length, the longest at which all of them fit. Where that says too little, the
    first keep that little, and the others their name alone; only then are skills left out.
    """
    names = list(accumulate(_cost(skill.name) + _FRAME for skill in skills))
    # Where not all names fit, the first of them can keep their descriptions.
    room = budget // 2 if names and names[-1] > budget else budget
    shown = skills[: bisect_right(names, room)]
    left = budget - sum(names[len(shown) - 1 : len(shown)])
    texts = [one_line(skill.described) for skill in shown]
    length = max(map(len, texts), default=0)
    if _cost_at(texts, length) > left:
        fitting = bisect_right(range(_LEAST, length), left, key=partial(_cost_at, texts))
        length = _LEAST + max(fitting - 1, 0)
    lines: list[ListedSkill] = []
    for skill, text in zip(shown, texts, strict=True):
        short = shortened(text, length)
        cost = _cost(short)
        is_told = cost <= left
        left -= cost if is_told else 0
        lines.append(ListedSkill(skill, short if is_told else None))
    is_whole = [line.description for line in lines] == texts and len(shown) == len(skills)
    lines.sort(key=attrgetter("skill.name"))
    return CatalogListing(tuple(lines), len(skills) - len(lines), len(skills), is_whole)


def shortened(text: str, length: int) -> str:
    """Return a description in so many characters; when to use the skill is the last that it loses."""
    if len(text) <= length:
        return text
    occasion = _OCCASION.search(text)
    start = occasion.start() if occasion else len(text)
    head, tail = text[:start].rstrip(), text[start:]
    room = length - len(tail) - 1 if tail else length
    if room < _LEAST_HEAD:
        return cut(tail, length)
    return f"{cut(head, room)} {tail}".rstrip()


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence."""
    return _SENTENCE_END.split(text, maxsplit=1)[0]


def _cost_at(texts: Sequence[str], length: int) -> int:
    return sum(_cost(shortened(text, length)) for text in texts)


def _cost(text: str) -> int:
    return len(escape_markup(text))
