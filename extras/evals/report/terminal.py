"""A run as text for a terminal: what went wrong, the figures, and last, where it is seen, the answer."""

from typing import Final

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.report import view
from skills_agent.evals.report.figures import failures, reason
from skills_agent.evals.report.view import Figures
from skills_agent.graph.cli.printing import line_of
from skills_agent.skills.text import count

MOST: Final = 20
"""Rows that are listed; the page and the JSON have all."""
_WIDE: Final = 1_000
"""Characters of a line in a pipe."""
_REQUEST: Final = 100
_STYLES: Final = {
    "better": "green",
    "passed": "green",
    "worse": "red",
    "failed": "red",
    "error": "magenta",
    "timeout": "magenta",
    "refused": "magenta",
    "too few cases": "yellow",
}
"""By words that stand alone in a cell."""


def print_report(summary: Summary, console: Console | None = None) -> None:
    """Print what a run says, in colours where a person sees them, and as wide as the terminal is."""
    console = console or Console(highlight=False, markup=False)
    console.width = console.width if console.is_terminal else _WIDE
    if faults := failures(summary):
        _line(console, Text(f"{count(len(faults), 'run')} did not pass:", "bold"))
    for fault in faults[:MOST]:
        outcome = f"  {fault.outcome:<7}  ", _STYLES.get(fault.outcome, "")
        name = line_of(view.name(fault, summary)), "bold"
        _line(console, Text.assemble(outcome, name, f": {line_of(reason(fault))}"))
        if fault.thread:
            _line(console, Text(f"           skills-agent threads show {line_of(fault.thread)}", "dim"))
    _more(console, len(faults))
    for table in view.tables(summary):
        _print_table(console, table)
    console.print()
    for note in view.notes(summary):
        _line(console, Text(f"note: {line_of(note)}"))
    for tone, sentence in view.answers(summary):
        _line(console, Text(line_of(sentence), f"bold {_STYLES.get(tone, '')}".rstrip()))


def _print_table(console: Console, table: Figures) -> None:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in table.header:
        grid.add_column(title, overflow="fold")
    for row in table.rows[:MOST]:
        grid.add_row(*(Text(line_of(cell, _REQUEST), _STYLES.get(cell, "")) for cell in row))
    console.print()
    _line(console, Text(line_of(table.title), "bold"))
    console.print(grid)
    _more(console, len(table.rows))


def _more(console: Console, found: int) -> None:
    if found > MOST:
        _line(console, Text(f"  and {found - MOST:,} more: --html FILE or --json has all"))


def _line(console: Console, text: Text) -> None:
    # The terminal breaks what is too long itself: a command stays one that can be copied.
    console.print(text, soft_wrap=True)
