"""What reaches a terminal or a pipe. Untrusted text (a model's, a skill's) must not steer the terminal."""

import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, Final

import click

from skills_agent.graph.cli.options import CommandRun
from skills_agent.skills.text import one_line
from skills_agent.skills.visible import Kind, visible

IN_PROGRESS: Final = (
    "load limit reached",
    "loaded skill differs on disk",
    "no summary by the model",
    "tool blocked by policy",
)
"""Warnings of the log that progress and `--json` say, too: a person would read them twice."""


def shown(text: str, kind: Kind = "program") -> str:
    """Return an untrusted text that hides nothing and cannot steer the terminal."""
    return visible(text.replace("\r\n", "\n"), kind)


def echo(text: str = "", kind: Kind = "program") -> None:
    """Print untrusted text for a person."""
    click.echo(shown(text, kind))


def print_markdown(text: str) -> None:
    """Print the untrusted Markdown of a model: what it says is all there, and addresses are not behind words.

    HTML is text here: Rich would leave it out.
    """
    from markdown_it import MarkdownIt
    from rich.console import Console
    from rich.markdown import Markdown

    markdown = Markdown("", hyperlinks=False)
    plain = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    markdown.parsed = plain.parse(shown(text, "prose"))
    Console(highlight=False).print(markdown)


def print_note(text: str) -> None:
    """Print words of ours beside the rest, wrapped between words."""
    from rich.console import Console

    Console(highlight=False).print(text, style="dim", markup=False)


def line_of(text: str, limit: int | None = None) -> str:
    """Return untrusted text as one line, cut at `limit` characters."""
    return one_line(shown(text), limit)


def local_time(when: object) -> str:
    """Return a time of ISO 8601 on the clock of the person who reads it."""
    try:
        return f"{datetime.fromisoformat(str(when)).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return "unknown time"


def print_json(value: Any) -> None:
    """Print one JSON value, records included; ASCII, so that it passes every pipe unharmed."""
    if context := click.get_current_context(silent=True):
        context.ensure_object(CommandRun).has_json = True
    click.echo(json.dumps(value, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    from msgspec import Struct, structs

    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Struct):
        return structs.asdict(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def waiting_text(held: Sequence[Mapping[str, str]], command: str) -> str:
    """Return in one sentence which changes wait, and the command that decides."""
    told = "; ".join(f"{each['tool']} {each['changed']}" for each in held)
    return f"Changes wait for you, and are not applied ({line_of(told)}). To apply or drop them: {command}"


def value_text(value: Any) -> str:
    """Return the value of a setting as one line of JSON."""
    return line_of(json.dumps(value, ensure_ascii=False, default=_plain))


def print_error(text: str) -> None:
    """Print an error as one line on stderr."""
    click.echo(f"error: {line_of(text)}", err=True)


def is_terminal() -> bool:
    """Return whether a person reads and types: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Return when a person says yes, or has said so before.

    Raises ClickException for a no and where nobody can be asked, and Abort for Ctrl-C.
    """
    if yes:
        return
    if not is_terminal():
        raise click.ClickException(
            f"{question} There is no terminal to ask on. Check what it would do, then add --yes."
        )
    if not click.confirm(question):
        raise click.ClickException("nothing was done.")


def table(rows: Sequence[Sequence[str]], *, header: Sequence[str] = (), empty: str = "") -> None:
    """Print rows in columns, or say why there are none.

    The last column is cut at the edge of a terminal, and not in a pipe.
    """
    if not rows:
        if empty:
            click.echo(empty)
        return
    safe = [[line_of(cell) for cell in row] for row in ([header, *rows] if header else rows)]
    widths = [max(len(row[column]) for row in safe) for column in range(len(safe[0]) - 1)]
    columns = (os.get_terminal_size().columns or 80) if sys.stdout.isatty() else None
    for row in safe:
        start = "".join(f"{cell:<{size}}  " for cell, size in zip(row, widths, strict=False))
        last = row[-1] if columns is None else one_line(row[-1], max(columns - len(start), 10))
        click.echo((start + last).rstrip())


def print_section(title: str, lines: Iterable[str]) -> None:
    """Print lines under a title; without lines, nothing."""
    for place, line in enumerate(lines):
        click.echo(f"  {line}" if place else f"\n{title}\n  {line}")


class _Stderr(logging.Handler):
    """Writes to the stderr of the moment: a spinner replaces it while it turns."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg not in IN_PROGRESS:
            click.echo(shown(self.format(record)), err=True)


def print_warnings() -> None:
    """Print the warnings of this package on stderr, without those that progress says."""
    logging.getLogger("skills_agent").addHandler(_Stderr(logging.WARNING))
