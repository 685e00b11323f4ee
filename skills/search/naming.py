"""Names of skills in a text: in a request, and in the descriptions of other skills.

What a request names comes before all that only match its words: two skills may be described alike, and a
request for `report.csv` is nearer to `csv-report` than to the `rain-report` that it asks for. A sentence of a
description that names another skill is about that one: "Not for pull requests: use review-pr" would otherwise
find the skill that sends such requests away.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

from skills_agent.skills.search.match import Match, SearchText
from skills_agent.skills.search.tokens import MAX_CHARACTERS, read_query, spaced

# Compiled when something is first searched.
_WORD: Final = r"[^\W_]+"
_JOINED: Final = r"[\s_-]+"
"""What may stand between the words of a name that is written as words."""
_WRITTEN: Final = r"(?a)(?<![\w.:@/-])[/$]?(\w+(?:[-.:]\w+)+)(?![\w/-]|[.:]\w)"
"""A name of several words as it is spelled, no path and no file; in ASCII, which Chinese may surround without
a blank."""
_CLOSE: Final = 0.5
"""Of the score of a match that the words of a name come before. At 0, "build an SEO audit tool" goes to
`seo-audit` where it is for `free-tools`."""
_PRECEDED: Final = frozenset("/.:@-_")
_FOLLOWED: Final = r"[/_-]|[.:]\w"
"""Beside a part of a path, of a file or of a longer name."""
_MOST_WORDS: Final = 12
"""Of a name that is looked for as words."""
_SENTENCE_END: Final = r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+"
_NAME: Final = r"""(?a)(?<!\w)[`/"'$]\w+(?:[-.:]\w+)*|(?<!\w)\w+(?:[-.:]\w+)+"""
"""In ASCII, which Chinese may surround without a blank. A name of one word is a name only after a sign that
says so: a skill may be called `review`."""
_MOST_NAMED: Final = 8
"""A sentence that names more is a list, and about none of them."""


Naming = Literal["written", "words"]
"""How a request names a skill: as it is spelled, or beside the word `skill`; or by the words of its name, one
after another, which may mean something else."""


class Names:
    """The names of texts, by their positions."""

    def __init__(self, names: Sequence[str]) -> None:
        self._written: dict[str, int] = {}
        self._words: dict[tuple[str, ...], int] = {}
        for position, name in enumerate(names):
            self._written.setdefault(name.lower(), position)
            if words := _words(name):
                self._words.setdefault(words, position)
        self._lengths = sorted({len(words) for words in self._words if len(words) <= _MOST_WORDS})

    def in_request(self, request: str) -> dict[int, Naming]:
        """Return what a request names: what is named as written first, else in the order of the request.

        A name of one word is a word like others, unless `skill` stands beside it or the request says no more.
        """
        text = request[:MAX_CHARACTERS].lower()
        named: dict[int, Naming] = {}
        for match in re.finditer(_WRITTEN, text):
            if (position := self._written.get(match[1])) is not None:
                named[position] = "written"
        for position, how in sorted(self._by_words(text), key=lambda name: name[1] != "written"):
            named.setdefault(position, how)
        return named

    def _by_words(self, text: str) -> Iterator[tuple[int, Naming]]:
        if (alone := self._words.get(read_query(text).words)) is not None:
            yield alone, "written"
        words = [*re.finditer(_WORD, spaced(text))]
        start = 0
        while start < len(words):
            # The longest first: `rain-report-daily` before `rain-report`.
            for length in reversed(self._lengths):
                run = words[start : start + length]
                position = self._words.get(tuple(word[0] for word in run))
                if position is None or len(run) < length or not _is_whole(run):
                    continue
                beside = (*words[max(start - 1, 0) : start], *words[start + length : start + length + 1])
                if any(word[0] == "skill" for word in beside):
                    yield position, "written"
                elif length > 1:
                    yield position, "words"
                start += length - 1
                break
            start += 1


def named_first(matches: Sequence[Match], named: dict[int, Naming], factors: Sequence[float]) -> list[Match]:
    """Return matches, given best first, with those that are named before what they stand behind.

    The words of a name bring no skill before a much better match, nor before one that is trusted more: any
    text can be made a name.
    """
    ranked = list(matches)
    for position in reversed(named):
        at = next((at for at, match in enumerate(ranked) if match.position == position), None)
        if at is None:
            continue
        match = ranked.pop(at)
        while at and (
            named[position] == "written"
            or (
                factors[ranked[at - 1].position] <= factors[position]
                and _CLOSE * ranked[at - 1].score <= match.score
            )
        ):
            at -= 1
        best = max(match.score, ranked[at].score if at < len(ranked) else match.score)
        ranked.insert(at, match._replace(score=best))
    return ranked


def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(_WORD, spaced(name.lower())))


def _is_whole(run: Sequence[re.Match[str]]) -> bool:
    """Return whether words stand together, and are no part of a path, a file or a longer name."""
    text = run[0].string
    gaps = [text[one.end() : other.start()] for one, other in pairwise(run)]
    return all(re.fullmatch(_JOINED, gap) for gap in gaps) and not (
        text[run[0].start() - 1 : run[0].start()] in _PRECEDED
        or re.compile(_FOLLOWED).match(text, run[-1].end())
    )


def attributed(skills: Sequence[SearchText]) -> list[str]:
    """Return for each skill the sentences about it: its own, and those in which others name it.

    The first sentence of a description stays: it says what the skill is. A sentence that names two others
    goes to both. To a skill that is trusted more than the one that names it, nothing is added.
    """
    positions = {skill.name.lower(): position for position, skill in enumerate(skills)}
    texts = [skill.description for skill in skills]
    added: dict[int, list[str]] = {}
    for position, skill in enumerate(skills):
        if not _named(skill.description, positions) - {position}:
            continue
        first, *others = re.split(_SENTENCE_END, skill.description)
        own = [first]
        for sentence in others:
            named = _named(sentence, positions) - {position}
            if not 0 < len(named) <= _MOST_NAMED:
                own.append(sentence)
                continue
            for other in sorted(named):
                if skills[other].factor <= skill.factor:
                    added.setdefault(other, []).append(sentence)
        texts[position] = " ".join(own).strip()
    for position, sentences in added.items():
        texts[position] = " ".join([texts[position], *sentences])
    return texts


def _named(text: str, positions: Mapping[str, int]) -> set[int]:
    names = (name.lstrip("`/\"'$").lower() for name in re.findall(_NAME, text))
    return {positions[name] for name in names if name in positions}
