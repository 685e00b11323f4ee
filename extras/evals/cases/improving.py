"""Search for a better description: what fits the requests of one half, measured on those of the other.

The search sees the training requests alone; the held-out ones choose nothing, so that their figure can be
believed. (Where the best of five is chosen by the held-out half, it looks better there than it is.)
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Final, NamedTuple, Protocol

from skills_agent.evals.cases.choosing import Chooser, Labelled
from skills_agent.evals.cases.drafting import Written, phrases_of
from skills_agent.skills.format.frontmatter import MAX_DESCRIPTION
from skills_agent.skills.search.tokens import FUNCTION_WORDS

HOLDOUT: Final = 0.4
"""Share of the requests of each label that are held out (skill-creator's)."""
LEAST: Final = 3
"""Requests of each label that a split needs."""
_ROUNDS: Final = 12
_WORDS: Final = (6, 12, 24)
"""How many words a sentence lists."""
_STEP: Final = 0.1
"""Of fit; less is no reason for a longer description."""
_ABOUT: Final = "Use when the request is about"
_COVERS: Final = "Covers"
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+")


class Split(NamedTuple):
    """The requests that a description is made for, and those that it is measured on."""

    train: tuple[Labelled, ...]
    held_out: tuple[Labelled, ...]


class Score(NamedTuple):
    """How many requests go where they should."""

    right: int
    of: int
    balanced: float
    """The mean of the shares of both labels: a description that takes everything has one half."""
    taken: tuple[bool, ...]
    """Whether each request goes where it should."""
    fit: float = 0.0
    """How surely the requests for the skill go there, on average."""


class Improvement(NamedTuple):
    """A description, the better one that was found, and what both do on both halves."""

    before: str
    after: str
    train_before: Score
    train_after: Score
    held_out_before: Score
    held_out_after: Score
    tried: int
    """Descriptions that were measured."""


class Proposer(Protocol):
    """Whoever has ideas for a description: pieces that are put together, or a model."""

    def propose(
        self, description: str, wrong: Sequence[tuple[Labelled, str]], round_number: int
    ) -> Iterable[str]:
        """Return descriptions to try, given the training requests that go wrong, and where these go."""
        ...


def split(requests: Sequence[Labelled], seed: int, share: float = HOLDOUT) -> Split:
    """Split requests by chance, each label by itself. Too few of a label are an empty half."""
    train: list[Labelled] = []
    held_out: list[Labelled] = []
    for label in (True, False):
        of_label = [each for each in requests if each.wanted is label]
        random.Random(f"{seed} {label}").shuffle(of_label)  # noqa: S311 - no secret
        size = max(1, int(len(of_label) * share)) if len(of_label) >= LEAST else 0
        held_out += of_label[:size]
        train += of_label[size:]
    return Split(tuple(train), tuple(held_out))


def score(
    name: str, requests: Sequence[Labelled], chooser: Chooser, descriptions: Mapping[str, str]
) -> Score:
    """Return how many requests go to the skill `name` where they should, and not where they should not."""
    choices = chooser.choose([each.text for each in requests], descriptions)
    taken = tuple(
        (choice.name == name) is each.wanted for each, choice in zip(requests, choices, strict=True)
    )
    shares = [
        sum(right) / len(right)
        for label in (True, False)
        if (
            right := [
                is_right for is_right, each in zip(taken, requests, strict=True) if each.wanted is label
            ]
        )
    ]
    fits = [
        choice.fit * is_right
        for each, choice, is_right in zip(requests, choices, taken, strict=True)
        if each.wanted
    ]
    return Score(
        right=sum(taken),
        of=len(taken),
        balanced=sum(shares) / len(shares) if shares else 0.0,
        taken=taken,
        fit=sum(fits) / len(fits) if fits else 0.0,
    )


def improve(
    skill: Written,
    others: Mapping[str, str],
    parts: Split,
    chooser: Chooser,
    proposer: Proposer,
    rounds: int = _ROUNDS,
) -> Improvement:
    """Return the best description that was found; the one there is, where none is better in training.

    `others` are the descriptions of all other skills. Of those that send as many requests right, the one that
    does so more surely wins, then the shortest. Stops when nothing proposed is better; a
    description that sends all training requests right is left alone.
    """
    measured: dict[str, Score] = {}

    def train(text: str) -> Score:
        if text not in measured:
            measured[text] = score(skill.name, parts.train, chooser, {**others, skill.name: text})
        return measured[text]

    def worth(text: str) -> tuple[float, int]:
        return train(text).balanced, int(train(text).fit / _STEP)

    def rank(text: str) -> tuple[float, int, int]:
        balanced, steps = worth(text)
        return -balanced, -steps, len(text)

    best = skill.description
    for number in range(0 if all(train(best).taken) else rounds):
        where = chooser.choose([each.text for each in parts.train], {**others, skill.name: best})
        wrong = [
            (each, choice.name)
            for each, choice, is_right in zip(parts.train, where, train(best).taken, strict=True)
            if not is_right
        ]
        proposed = {text for each in proposer.propose(best, wrong, number) if (text := _fitting(each))}
        leader = min(sorted(proposed), key=rank, default=best)
        if worth(leader) <= worth(best):
            break
        best = leader

    def held_out(text: str) -> Score:
        return score(skill.name, parts.held_out, chooser, {**others, skill.name: text})

    return Improvement(
        before=skill.description,
        after=best,
        train_before=train(skill.description),
        train_after=train(best),
        held_out_before=held_out(skill.description),
        held_out_after=held_out(best),
        tried=len(measured),
    )


class PieceProposer:
    """Puts descriptions together from what the skill says, and from words of the requests that it missed."""

    def __init__(
        self, skill: Written, train: Sequence[Labelled], chooser: Chooser, others: Mapping[str, str]
    ) -> None:
        unwanted = [each.text for each in train if not each.wanted]
        elsewhere = [choice.name for choice in chooser.choose(unwanted, others)]
        self._elsewhere = dict(zip(unwanted, elsewhere, strict=True))
        """Which skill would take what this one should not."""
        self._pieces = [_sentence(phrase) for phrase in phrases_of(skill)]
        self._own = Counter(_words_in(skill.instructions))
        common = Counter(word for text in others.values() for word in _words(text))
        telling = sorted(
            (word for word in self._own if self._own[word] > 1),
            key=lambda word: (-self._own[word] * log((len(others) + 1) / (common[word] + 0.5)), word),
        )
        self._telling = telling
        self._pieces += [each for each in _first_sentences(skill.instructions) if each not in self._pieces]
        self._train = train

    def propose(
        self, description: str, wrong: Sequence[tuple[Labelled, str]], round_number: int
    ) -> Iterable[str]:
        """Return the description with one piece more, with one sentence less, and with words it lacks."""
        del round_number
        sentences = _SENTENCES.split(description.strip())
        words = _words(description)
        for piece in (*self._pieces, *self._covers(words), *self._missing(wrong), *self._sent_away(wrong)):
            if piece not in sentences:
                # Of each list of words there is one: a longer one takes the place of a shorter one.
                lists = tuple(each for each in (_ABOUT, _COVERS) if piece.startswith(each))
                kept = [_ended(each) for each in sentences if not (lists and each.startswith(lists))]
                yield " ".join([*kept, piece])
        for index in range(len(sentences) if len(sentences) > 1 else 0):
            yield " ".join(sentences[:index] + sentences[index + 1 :])

    def _covers(self, said: set[str]) -> Iterator[str]:
        """Name the words that the instructions repeat, others do not say, and the description lacks."""
        words = [word for word in self._telling if word not in said]
        for many in _WORDS:
            if words[:many]:
                yield f"{_COVERS} {', '.join(words[:many])}."

    def _missing(self, wrong: Sequence[tuple[Labelled, str]]) -> Iterator[str]:
        """Name the words that most of the missed requests have, and those for other skills do not."""
        lacking = [each.text for each, _ in wrong if each.wanted]
        against = Counter(word for each in self._train if not each.wanted for word in _words(each.text))
        counts = Counter(word for text in lacking for word in _words(text))
        ranked = sorted(counts, key=lambda word: (against[word] - counts[word], word))
        useful = [
            word
            for word in ranked
            if counts[word] > against[word] and (counts[word] > 1 or word in self._own)
        ]
        for many in _WORDS:
            if useful[:many]:
                yield f"{_ABOUT} {', '.join(useful[:many])}."

    def _sent_away(self, wrong: Sequence[tuple[Labelled, str]]) -> Iterator[str]:
        """Name the skills that the requests are for which this one took, with the words of these."""
        taken: dict[str, Counter[str]] = {}
        for each, _ in wrong:
            if not each.wanted and (other := self._elsewhere.get(each.text)):
                taken.setdefault(other, Counter()).update(_words(each.text))
        for other, words in taken.items():
            named = sorted(words, key=lambda word: (-words[word], word))[:6]
            yield f"Not for {', '.join(named)}: use `{other}`."


def _words(text: str) -> set[str]:
    return set(_words_in(text))


def _words_in(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]{3,}", text.lower()) if word not in FUNCTION_WORDS]


def _first_sentences(instructions: str) -> Iterator[str]:
    """Return the first sentence of each paragraph that is prose."""
    for paragraph in re.split(r"\n\s*\n", re.sub(r"(?s)```.*?```", "", instructions))[:40]:
        text = " ".join(paragraph.split())
        if text[:1].isalpha():
            first = _SENTENCES.split(text)[0]
            if 20 <= len(first) <= 240 and not re.search(r"[`<>{}|\[\]]", first):
                yield _ended(first)


def _sentence(phrase: str) -> str:
    return _ended(f"Use for: {phrase[:1].lower()}{phrase[1:]}")


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?", "。")) else f"{text}."


def _fitting(text: str) -> str:
    clean = " ".join(text.split())
    return clean if 0 < len(clean) <= MAX_DESCRIPTION else ""
