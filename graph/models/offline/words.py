"""Words as the rules compare them."""

import re

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MIN_STEM = 3


def vocabulary(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text."""
    return frozenset(text.split())


FUNCTION_WORDS = vocabulary(
    """a about above after again all also am an and any are as at be been being below between both but by can
    could did do does doing done down during each either every few for from further get give given gives go
    had has have having he her here him his how i if in into is it its just let like make many may me might
    more most much must my no nor not of off on once one only or other our out over own per please same shall
    she should show so some such tell than thank thanks that the their them then there these they this those
    through to too under until up us use used using very want was we were what when where which while who
    whom whose why will with within without would yes you your need needs"""
)
"""Words that say nothing about the subject."""


def words(text: str) -> list[str]:
    """Return the words in order, lower case; `groupBy`, `group_by` and `group-by` are two words."""
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text))]


def stem(word: str) -> str:
    """Return a rough stem: `groups`, `grouped` and `grouping` meet in `group`."""
    word = word.lower()
    for ending, rest in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM and not word.endswith("ss"):
            word = word[: len(word) - len(ending)] + rest
            break
    if len(word) > _MIN_STEM and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > _MIN_STEM and word.endswith("e") else word


def stems(text: str) -> frozenset[str]:
    """Return the stems of the words that say something."""
    return frozenset(stem(word) for word in words(text) if word not in FUNCTION_WORDS)
