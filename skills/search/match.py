"""What a search finds."""

from typing import NamedTuple


class Match(NamedTuple):
    """The position of a text among those indexed, and how well it matches: higher is better."""

    position: int
    score: float
    fit: float = 0.0
    """How well by words alone, 0 or more; comparable between requests and between catalogs."""
