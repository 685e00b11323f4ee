"""A run as text for a terminal: what went wrong, the figures, and last, where it is seen, the answer."""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from skills_agent.evals.cases.comparing import ARMS
from skills_agent.evals.cases.summary import NO_SKILL, ArmSummary, Delta, Summary
from skills_agent.evals.report.wording import (
    Answer,
    answers,
    compared,
    failures,
    number,
    percent,
    reason,
    share,
    short_change,
    spread,
)
from skills_agent.graph.cli.printing import line_of
from skills_agent.skills.text import count

MOST: Final = 20
"""Failed runs and near misses that are listed; the page and the JSON have all."""
_REQUEST: Final = 70
_GAP: Final = 2
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
"""By words that stand alone in a cell or begin a line."""


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print it, in colours where a person sees them, and as wide as the terminal is."""
    report = _Report(console or Console(highlight=False, markup=False))
    report.failures(summary)
    for arm in summary.arms:
        report.choices(arm)
    report.figures(summary)
    report.notes(summary)
    report.answers(answers(summary))


class _Report:
    """Prints parts with an empty line between them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_first = True

    def failures(self, summary: Summary) -> None:
        found = list(failures(summary))
        if not found:
            return
        self._begin(f"{count(len(found), 'run')} did not pass:")
        for each in found[:MOST]:
            where = f" ({each.model})" if len(summary.head.models) > 1 else ""
            repeat = f" [{each.repeat + 1}]" if summary.head.repeat > 1 else ""
            self._line(
                "  ",
                (f"{each.outcome:<7}", _STYLES.get(each.outcome, "")),
                (f"  {line_of(each.case)}{repeat}", "bold"),
                line_of(f"{where}: {reason(each)}"),
            )
            if each.thread:
                self._line((f"           skills-agent threads show {line_of(each.thread)}", "dim"))
        self._more(len(found))
        if flaky := [row.case for row in summary.cases if row.flaky]:
            self._line(f"Flaky, passed in some of the runs only: {_listed(flaky)}")

    def choices(self, arm: ArmSummary) -> None:
        choices = arm.choices
        if choices is None or arm.arm != "with":
            return
        right = share(choices.accuracy)
        self._begin(f"Which skill {line_of(arm.model)} chose: right for {right} of the requests")
        header = ("skill", "right", "missed", "wrong", "precision", "recall", "F1")
        rows = [
            (
                each.skill,
                str(each.right),
                str(each.missed),
                str(each.wrong),
                share(each.precision),
                share(each.recall),
                "-" if each.f1 is None else f"{each.f1:.2f}",
            )
            for each in choices.skills[:MOST]
        ]
        self._table(header, rows)
        self._more(len(choices.skills))
        for miss in choices.near_misses[:MOST]:
            expected, chosen = (", ".join(names) or NO_SKILL for names in (miss.expected, miss.chosen))
            rate = "" if miss.rate == 1 else f", {percent(miss.rate)} of the runs"
            self._line(
                f"  {line_of(miss.request, _REQUEST)}: ",
                (line_of(chosen), "red"),
                line_of(f", and not {expected}{rate}"),
            )
        self._more(len(choices.near_misses))

    def figures(self, summary: Summary) -> None:
        self._begin("")
        header = ("model", "arm", "cases", "passed", "calls", "tokens", "seconds", "USD")
        rows = [[_arm_row(arm, is_short=is_short) for arm in summary.arms] for is_short in (False, True)]
        self._table(header, *rows)
        groups: dict[tuple[str, str], list[Delta]] = {}
        for each in sorted(summary.deltas, key=lambda delta: delta.name == ARMS):
            groups.setdefault((compared(each), each.model), []).append(each)
        for (title, model), found in groups.items():
            self._begin(line_of(f"{title}: {model}" if len(summary.head.models) > 1 else title))
            self._table(
                ("metric", "shows", "difference", "better/worse/same"), [_delta_row(each) for each in found]
            )

    def notes(self, summary: Summary) -> None:
        notes = [f"note: {each}" for each in (*summary.notes, *summary.head.skipped)]
        partial = summary.head.partial
        if partial and not any(partial in each for each in summary.notes):
            notes.append(f"This run is not whole: {partial}.")
        if notes:
            self._begin("")
        for each in notes:
            self._line(line_of(each))

    def answers(self, found: Sequence[Answer]) -> None:
        self._begin("")
        for each in found:
            self._line((line_of(each.sentence), f"bold {_STYLES.get(each.tone, '')}".rstrip()))
            if each.details:
                self._line(line_of(each.details))

    def _begin(self, title: str) -> None:
        if not self._is_first:
            self._console.print()
        self._is_first = False
        if title:
            self._line((title, "bold"))

    def _line(self, *parts: str | tuple[str, str]) -> None:
        # The terminal breaks what is too long itself: a command stays one that can be copied.
        self._console.print(Text.assemble(*parts), soft_wrap=True)

    def _table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        short_rows: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """Print rows below one another; those that are wider than the terminal shorter, or each as a list."""
        for some in filter(None, (rows, short_rows)):
            safe = [[line_of(cell) for cell in row] for row in some]
            widths = [max(map(cell_len, column)) for column in zip(header, *safe, strict=True)]
            if not self._console.is_terminal or sum(widths) + _GAP * (len(widths) - 1) <= self._console.width:
                self._rows(header, safe, widths)
                return
        size = max(map(len, header))
        for row in rows:
            self._line((line_of(row[0]), "bold"))
            for title, cell in zip(header[1:], row[1:], strict=True):
                self._line((f"  {title:<{size}}  ", "dim"), (line_of(cell), _STYLES.get(cell, "")))

    def _rows(self, header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
        self._line((_padded(header, widths).rstrip(), "dim"))
        for row in rows:
            styled = [
                (_padded([cell], [width]), _STYLES.get(cell, ""))
                for cell, width in zip(row[:-1], widths, strict=False)
            ]
            gaps = [part for each in styled for part in (each, " " * _GAP)]
            self._line(*gaps, (row[-1], _STYLES.get(row[-1], "")))

    def _more(self, found: int) -> None:
        if found > MOST:
            self._line(f"  and {found - MOST:,} more: --html FILE or --json has all")


def _arm_row(arm: ArmSummary, *, is_short: bool) -> tuple[str, ...]:
    """Return the figures of an arm; short ones are without the range."""
    cases = f"{arm.cases} x {arm.runs // arm.cases}" if arm.cases and arm.runs > arm.cases else str(arm.cases)
    amounts = [
        "?" if values is None else number(values.median) if is_short else spread(values)
        for values in (arm.calls, arm.tokens, arm.seconds, arm.usd)
    ]
    return (arm.model, arm.arm, cases, share(arm.passed), *amounts)


def _delta_row(each: Delta) -> tuple[str, ...]:
    return (each.metric, each.verdict, short_change(each), f"{each.wins}/{each.losses}/{each.ties}")


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return cells as one text; a wide character takes two places."""
    gap = " " * _GAP
    return gap.join(cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return line_of(", ".join(names[:MOST]) + more)
