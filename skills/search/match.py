"""What is searched, and what a search finds."""

from collections.abc import Callable
from typing import Final, NamedTuple

INSTRUCTION_CHARACTERS: Final = 64_000
"""Of one skill that are indexed."""


class SearchText(NamedTuple):
    """The texts by which one skill is found."""

    name: str
    description: str
    instructions: str | Callable[[], str] = ""
    """A function is called when the text is first indexed."""
    key: str = ""
    """Differs when the instructions may: a key that is indexed is not indexed again."""
    factor: float = 1.0
    """What its scores are multiplied with: less than 1 for one that nobody vouches for."""


class Match(NamedTuple):
    """The position of a text among those indexed, and how well it matches: higher is better."""

    position: int
    score: float
    fit: float = 0.0
    """How well by words alone, 0 or more; comparable between requests and between catalogs."""
