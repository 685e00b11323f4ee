"""Match words and paths against patterns in which `*` is the only wildcard.

Patterns come from untrusted skills, so no pattern may cost more than its length times that of the text:
no regular expressions, which such a pattern can keep busy for hours.
"""

from collections.abc import Sequence
from typing import Final, Literal

Anything = Literal["\0any"]
ANY: Final[Anything] = "\0any"
"""Stands in a pattern for any number of elements, also none. No word and no path holds a NUL."""


def word_matches(pattern: str, word: str) -> bool:
    """Tell whether a word is what a pattern says: `*` is any text, everything else is itself."""
    first, *middle = pattern.split("*")
    if not middle:
        return word == pattern
    last = middle.pop()
    if not word.startswith(first) or not word.endswith(last) or len(word) < len(first) + len(last):
        return False
    rest = word[len(first) : len(word) - len(last)]
    for part in middle:
        found = rest.find(part)
        if found < 0:
            return False
        rest = rest[found + len(part) :]
    return True


def all_match(patterns: Sequence[str], words: Sequence[str]) -> bool:
    """Tell whether words are what patterns say, one by one; `ANY` takes in as many as it needs."""
    at = retry_at = 0
    retry_from = -1
    word = 0
    while word < len(words):
        if at < len(patterns) and patterns[at] == ANY:
            retry_from, retry_at = at, word
            at += 1
        elif at < len(patterns) and word_matches(patterns[at], words[word]):
            at += 1
            word += 1
        elif retry_from >= 0:
            retry_at += 1
            at, word = retry_from + 1, retry_at
        else:
            return False
    return all(pattern == ANY for pattern in patterns[at:])
