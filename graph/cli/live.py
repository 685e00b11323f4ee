"""The progress of a run on a terminal: lines of what was done, and below them what is going on."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from skills_agent.graph.cli.printing import line_of, shown
from skills_agent.graph.cli.views import NODE_COLUMN

REFRESH_PER_SECOND = 12
LINES_OF_SPEECH = 12
"""Of a long answer the end is shown while it comes in; it is printed whole when it is complete."""


class Terminal:
    """Prints what was done, and keeps a spinner and the newest words of the model below."""

    def __init__(self, console: Console) -> None:
        """Draw on a console."""
        self._console = console
        self._spinner = Spinner("dots", style="cyan")
        self._speech = ""

    def __rich__(self) -> RenderableType:
        """Return what stands below the printed lines."""
        lines = shown(self._speech).splitlines()[-LINES_OF_SPEECH:]
        speech = [Text("\n".join(lines), style="dim")] if lines else []
        return Group(*speech, self._spinner)

    def working(self, node: str, text: str = "") -> None:
        """Say beside the spinner what is being done."""
        room = max(self._console.width - NODE_COLUMN - 4, 20)
        self._spinner.update(text=Text.assemble((node, "cyan"), "  ", line_of(text, room)))

    def did(self, node: str, text: str) -> None:
        """Print a line above the spinner."""
        self._speech = ""
        room = max(self._console.width - NODE_COLUMN - 1, 20)
        line = Text.assemble((f"{node:<{NODE_COLUMN}} ", "bold cyan"), line_of(text, room))
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def token(self, text: str) -> None:
        """Add a piece to the words below."""
        self._speech += text


@contextmanager
def live() -> Iterator[Terminal]:
    """Show a run on the terminal until the block ends; the spinner leaves no trace."""
    console = Console(highlight=False)
    view = Terminal(console)
    with Live(view, console=console, transient=True, refresh_per_second=REFRESH_PER_SECOND):
        yield view
