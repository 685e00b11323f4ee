"""Requests drafted from what skills say of themselves, where nobody has written any yet.

They flatter a skill: its own words find it. They show which neighbour is in its way; how well a description
does, only requests of people show.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final, NamedTuple

from skills_agent.evals.cases.choosing import Labelled

MANY: Final = 10
"""Requests of each kind."""
EVERYDAY: Final = ("What is the capital of Norway?", "Thanks, that is all for today.")
"""For no skill at all."""
_QUOTED: Final = re.compile(r"[\"“]([^\"“”\n`{}<>|$=;\\/]{8,120})[\"”]")
"""Authors quote what users say."""
_FENCED: Final = re.compile(r"(?ms)^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1")
"""Code says nothing that a user would: its quotes are values, and its headings comments."""
_USE_WHEN: Final = re.compile(
    r"(?i)\b(?:use (?:this skill )?(?:when|for|if|to)|when(?:ever)? (?:the |a )?users?|triggers? (?:on|when))"
    r"\b"
    r"\s*(?:the |a )?(?:users?\b\s*)?(?:asks?|wants?|needs?|says?|mentions?)?\s*(?:to |for |about |how )?"
    r"([^.!?\n]+)"
)
_BETWEEN: Final = re.compile(r"[,;]\s*(?:or|and)?\s+|\s+or\s+(?=[a-z]+ing\b|wh|how\b)")
_HEADING: Final = re.compile(r"(?m)^#{2,4}\s+(?:\d+[.)]\s*)?(.+?)\s*#*$")
_GENERIC_WORDS: Final = """
steps usage output instructions overview introduction examples example notes form format reference references
resources workflow process requirements limitations troubleshooting installation quick start setup guidelines
guide checklist tips inputs input answer details background summary scripts files when use this skill how it
works what does the core principles best practices
"""
_GENERIC: Final = frozenset(_GENERIC_WORDS.split())
"""A heading of these words says nothing about its skill."""
_MARKUP: Final = re.compile(r"[*_`]|\[([^]]*)\]\([^)]*\)")


class Written(NamedTuple):
    """What a skill says of itself."""

    name: str
    description: str
    instructions: str


def draft(skill: Written, neighbours: Sequence[Written]) -> list[Labelled]:
    """Return requests for a skill, and others that its neighbours, the nearest first, or none are for."""
    own = [Labelled(text, True, f"drafted from {skill.name}") for text in islice(_phrases(skill), MANY)]
    taken = {each.text.casefold() for each in own}
    by_turns = chain.from_iterable(
        zip_longest(*([(other.name, text) for text in islice(_phrases(other), MANY)] for other in neighbours))
    )
    others = [
        Labelled(text, False, f"drafted from {name}")
        for name, text in (each for each in by_turns if each)
        if text.casefold() not in taken
    ]
    everyday = [Labelled(text, False, "everyday") for text in EVERYDAY]
    return [*own, *others[: MANY - len(everyday)], *everyday]


def phrases_of(skill: Written) -> list[str]:
    """Return what a skill says that it is for, in words a user might say: its own first."""
    return [*islice(_phrases(skill), 2 * MANY)]


def _phrases(skill: Written) -> Iterator[str]:
    seen: set[str] = set()
    for text in _candidates(skill):
        phrase = " ".join(_MARKUP.sub(r"\1", text).split()).strip(" .,:;-–—")
        key = phrase.casefold()
        if key not in seen and _says_something(phrase):
            seen.add(key)
            yield phrase


def _candidates(skill: Written) -> Iterable[str]:
    yield from _QUOTED.findall(skill.description)
    for clauses in _USE_WHEN.findall(skill.description):
        yield from _BETWEEN.split(clauses)
    prose = _FENCED.sub("", skill.instructions)
    yield from _QUOTED.findall(prose)
    for clauses in _USE_WHEN.findall(prose):
        yield from _BETWEEN.split(clauses)
    yield from _HEADING.findall(prose)
    yield from re.split(r"(?<=[.!?])\s", skill.description)


def _says_something(phrase: str) -> bool:
    words = re.findall(r"\w+", phrase.casefold())
    is_short = len(phrase.split()) < 2 and phrase.isascii()  # other scripts have no blanks
    return not is_short and len(words) <= 30 and not _GENERIC.issuperset(words)
