"""What reaches a person's terminal or a machine's pipe."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from skills_agent.skills.text import clean_text, normalize_line_ends, one_line


def shown(text: str) -> str:
    """Return a text that cannot steer the terminal: models, skills and scripts wrote it, not we."""
    return clean_text(normalize_line_ends(text)).text


def echo(text: str = "") -> None:
    """Print untrusted text for a person."""
    click.echo(shown(text))


def line_of(text: str, limit: int | None = None) -> str:
    """Return untrusted text as one line, cut at `limit` characters."""
    return one_line(shown(text), limit)


def print_json(value: Any) -> None:
    """Print one JSON value; ASCII, so that it passes every pipe unharmed."""
    import json

    click.echo(json.dumps(value, indent=2, default=str))


def is_terminal() -> bool:
    """Tell whether a person reads and types: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def width() -> int | None:
    """Return the columns of the terminal; None in a pipe, where nothing is cut."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; the last one is cut at the edge of the terminal."""
    if not rows:
        return
    safe = [[line_of(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in safe) for column in range(len(safe[0]) - 1)]
    for row in safe:
        start = "".join(f"{cell:<{size}}  " for cell, size in zip(row, widths, strict=False))
        room = width()
        last = row[-1] if room is None else one_line(row[-1], max(room - len(start), 10))
        click.echo((start + last).rstrip())
