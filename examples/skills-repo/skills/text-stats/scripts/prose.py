"""Count words and sentences, and rate how hard English prose is to read."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from documents import Block

WORDS_PER_MINUTE = 238
"""Silent reading of English non-fiction: Brysbaert 2019, doi.org/10.1016/j.jml.2019.104047."""
FEWEST_WORDS = 100
"""Below this, one long word moves the score by points: it is not given."""
ENGLISH_SHARE = 0.18
"""Share of FUNCTION_WORDS in English prose is 0.3 to 0.5; in other languages it stays below 0.1."""

WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]")
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")
VOWELS = re.compile(r"[aeiouy]+")
ABBREVIATED = """
mr mrs ms dr prof sr jr st vs etc fig no vol ed eds al cf approx dept est inc ltd co corp e.g i.e a.m p.m
jan feb mar apr jun jul aug sep sept oct nov dec
"""
ABBREVIATIONS = frozenset(ABBREVIATED.split())
FREQUENT = """
the of and to a in is it that for was on are as with his they be at this have from or by not but what all
were when we there can an your which their if will each about how up out them then she many some so these
would other into has more her two him see could no than been its who did my you he i do does had our us
me any only also may such should must just very over most after before where why while because being both
between same own under through during against off once here too again don't isn't it's
"""
FUNCTION_WORDS = frozenset(FREQUENT.split())
EASE = ((90, "very easy"), (80, "easy"), (70, "fairly easy"), (60, "plain English"), (50, "fairly hard"))


class Sentence(NamedTuple):
    """A sentence and where its block begins."""

    line: int
    words: int
    text: str


class Readability(NamedTuple):
    """Flesch's two measures (Flesch 1948; Kincaid and others 1975): made for English prose."""

    ease: float
    grade: float
    words: str


def words_of(text: str) -> list[str]:
    """Return the words of a text; `don't`, `e-mail` and `3.5` are one each."""
    return WORD.findall(text)


def split_sentences(text: str) -> Iterator[str]:
    """Yield sentences; the end of the text always ends one.

    A point ends none after an abbreviation, after an initial, or before a small letter.
    """
    start = 0
    for match in END.finditer(text):
        before = text[start : match.start()].rsplit(maxsplit=1)
        token = before[-1].lstrip("(\"'“").lower() if before else ""
        after = text[match.end() :].lstrip()[:1]
        initial = len(token) == 1 and token.isalpha() and text[match.start() - 1].isupper()
        abbreviated = match[0] == "." and after and (token in ABBREVIATIONS or initial)
        if abbreviated or (match[0][0] in ".…" and after.islower()):
            continue
        yield text[start : match.end()].strip()
        start = match.end()
    if text[start:].strip():
        yield text[start:].strip()


def sentences_of(blocks: Iterable[Block]) -> list[Sentence]:
    """Return all sentences that have words."""
    found = (
        Sentence(line, len(words_of(text)), text) for line, block in blocks for text in split_sentences(block)
    )
    return [sentence for sentence in found if sentence.words]


def syllables(word: str) -> int:
    """Estimate the syllables of an English word: groups of vowels, without a silent e at the end."""
    letters = word.lower()
    number = len(VOWELS.findall(letters))
    silent = letters.endswith("e") and not letters.endswith(("le", "ee", "ye")) and number > 1
    return max(1, number - silent)


def rate(sentences: Sequence[Sentence]) -> Readability | str:
    """Return how hard the sentences are to read, or why that cannot be told."""
    words = [word for sentence in sentences for word in words_of(sentence.text)]
    if len(words) < FEWEST_WORDS:
        return f"fewer than {FEWEST_WORDS} words in sentences"
    if sum(word.lower() in FUNCTION_WORDS for word in words) < ENGLISH_SHARE * len(words):
        return "the text does not look like English prose"
    length = len(words) / len(sentences)
    weight = sum(map(syllables, words)) / len(words)
    ease = 206.835 - 1.015 * length - 84.6 * weight
    grade = 0.39 * length + 11.8 * weight - 15.59
    return Readability(round(ease, 1), round(grade, 1), ease_in_words(ease))


def ease_in_words(ease: float) -> str:
    """Return Flesch's own word for a score."""
    return next((name for least, name in EASE if ease >= least), "hard" if ease >= 30 else "very hard")


def frequent_terms(words: Iterable[str], limit: int) -> list[tuple[str, int]]:
    """Return the most frequent words that carry meaning, equally frequent ones in their order."""
    folded = (word.casefold() for word in words)
    counts = Counter(word for word in folded if len(word) > 2 and word not in FUNCTION_WORDS)
    terms = [(word, number) for word, number in counts.items() if not word[0].isdigit()]
    return sorted(terms, key=lambda item: (-item[1], item[0]))[:limit]


def is_unspaced(text: str) -> bool:
    """Return whether a text is mostly in a script that puts no spaces between words."""
    letters = sum(map(str.isalpha, text))
    return len(UNSPACED.findall(text)) * 2 > letters > 0
