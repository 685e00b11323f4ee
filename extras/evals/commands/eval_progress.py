"""How far a run of eval cases is: a line for each, and a bar on a terminal; stdout is for the result."""

from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.trajectory import Spent
from skills_agent.graph.cli.printing import line_of

_STYLES = {"passed": "green", "ungraded": "dim"}
_LONGEST = 200


class EvalProgress:
    """Counts what passed and what did not, and what it took so far."""

    def __init__(self, total: int, done: Sequence[EvalResult], *, quiet: bool) -> None:
        """Begin with what an earlier command has done; print nothing at all where it is quiet."""
        console = Console(stderr=True, highlight=False, quiet=quiet)
        self._bar = Progress(
            TextColumn("evals"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._console = console
        self._passed = sum(each.outcome == "passed" for each in done)
        self._count, self._total = len(done), total
        self._spent = Spent(usd=0.0)
        self._task = self._bar.add_task("evals", total=total, completed=len(done), counts="")

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self._bar.stop()

    def tell(self, result: EvalResult) -> None:
        """Say what came of one more run of a case."""
        self._count += 1
        self._passed += result.outcome == "passed"
        self._spent += result.spent + result.grading
        arm = "" if result.arm == "with" else "  without the skill"
        text = f"{result.case}  {result.model}{arm}"
        number = f"{self._count:>{len(str(self._total))}}/{self._total}"
        style = _STYLES.get(result.outcome, "red")
        line = Text.assemble(f"{number}  ", (f"{result.outcome:<8}", style), "  ", line_of(text, _LONGEST))
        self._bar.console.print(line, soft_wrap=True)
        self._bar.update(self._task, advance=1, counts=self._counts())

    def _counts(self) -> str:
        usd = "" if not self._spent.usd else f", {self._spent.usd:.4f} USD"
        failed = self._count - self._passed
        return f"{self._passed} passed, {failed} not, {self._spent.tokens:,} tokens{usd}"
