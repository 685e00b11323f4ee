"""What `skills install` and `update` show before they ask. All of it is a stranger's text."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from skills_agent.graph.cli.printing import line_of
from skills_agent.packages.difference import FileDifference
from skills_agent.packages.review import Review
from skills_agent.packages.scan import finding_text
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible

DIFF_LINES: Final = 60
"""Of one skill, unless all is shown."""
_LINE: Final = 400
"""Characters of a line of a difference, likewise."""
_SHOWN: Final = 12
"""Of a digest or a commit, and of findings."""
_DESCRIPTION: Final = 600
_LABEL: Final = 10
_WIDTH: Final = 80


def print_reviews(reviews: Sequence[Review], folder: Path, *, whole: bool = False) -> None:
    """Print what a person has to know before saying yes; `whole`: all lines of a difference."""
    todo = [review for review in reviews if review.change != "same"]
    same = len(reviews) - len(todo)
    for each in todo:
        for line in (*_rows(each), *_diff(each, whole=whole), ""):
            click.echo(line)
    if todo and same:
        click.echo(f"{count(same, 'skill')} {'is' if same == 1 else 'are'} here already, the same.")
    if not todo:
        click.echo(line_of(f"Nothing to do: {folder} has {'it' if same == 1 else 'these'} already."))


def _rows(each: Review) -> Iterator[str]:
    is_other = each.version_before not in {"", each.version}
    version = f"{each.version_before} -> {each.version}" if is_other else each.version
    yield "  ".join(filter(None, (line_of(each.name), each.change, line_of(version, 60))))
    yield from _row("", line_of(each.description, _DESCRIPTION), "  ")
    yield from _row("from", _from(each))
    size = f"{count(f'{each.files:,}' if each.files != 1 else 1, 'file')}, {each.bytes:,} bytes"
    yield from _row("has", f"{size}, digest {each.digest[:_SHOWN]}")
    yield f"  {line_of(each.signature)}"  # not wrapped: a fingerprint is compared whole
    for label, text in {**each.facts, "stays": each.obstacle}.items():
        yield from _row(label, text)
    for finding in each.findings[:_SHOWN]:
        yield from _row("warning" if finding.level == "warning" else "note", finding_text(finding))
    if more := len(each.findings) - _SHOWN:
        yield from _row("note", f"and {more} more; --json has all" if more > 0 else "")


def _from(each: Review) -> str:
    if _is_commit(each.resolved):
        was = each.resolved_before[:_SHOWN] if each.resolved_before not in {"", each.resolved} else ""
        at = f" at {each.resolved[:_SHOWN]}" + (f", was {was}" if was else "")
    else:
        at = f", {each.resolved}" if each.resolved not in {"", each.source} else ""
    return f"{each.source}{at}{f', folder {each.path}' if each.path else ''}"


def _diff(each: Review, *, whole: bool) -> Iterator[str]:
    lines = list(_diff_lines(each.difference, whole=whole))
    yield from lines if whole else lines[:DIFF_LINES]
    if not whole and len(lines) > DIFF_LINES:
        yield f"  ... {count(f'{len(lines) - DIFF_LINES:,}', 'line')} more. To see all: --dry-run, or --check"


def _diff_lines(files: Iterable[FileDifference], *, whole: bool) -> Iterator[str]:
    for file in files:
        said = f": {line_of(file.said)}" if file.said else ""
        yield f"  {file.kind} {line_of(file.path)}{said}"
        for line in file.lines:
            more = 0 if whole else max(len(line) - _LINE, 0)
            cut = f"{line[:_LINE]} ... {more:,} characters more" if more else line
            yield f"  {visible(cut, 'program')}".rstrip()  # that it ends with CR is shown


def _is_commit(resolved: str) -> bool:
    return len(resolved) in {40, 64} and all(each in "0123456789abcdef" for each in resolved)


def _row(label: str, text: str, first: str = "") -> Iterator[str]:
    """Yield a line with a label, wrapped under itself; nothing for no text."""
    first = first or f"  {label:<{_LABEL}}"
    plain = line_of(text)
    yield from textwrap.wrap(
        plain,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
        replace_whitespace=False,
        max_lines=40,
    )
