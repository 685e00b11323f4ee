"""How counts, values and figures are written in a report."""

from collections import Counter
from decimal import Decimal


def count(number: int, noun: str) -> str:
    """Return `1 row`, `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def figure(value: Decimal | None) -> str:
    """Return a number in full, with thousands separators."""
    return "none" if value is None else f"{value:,f}"


def shown(text: str, limit: int = 40) -> str:
    """Return text that is safe to print on one line: no control characters, bounded."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def listed(counts: Counter[str], limit: int = 10) -> str:
    """Return values with their counts, the most frequent first."""
    return ", ".join(f"{shown(text)} {number:,}" for text, number in ranked(counts, limit))


def ranked(counts: Counter[str], limit: int) -> list[tuple[str, int]]:
    """Return the most frequent values; equally frequent ones in the order of their text."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
