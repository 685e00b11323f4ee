"""Where the progress of a run is shown: as plain lines, or nowhere."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from skills_agent.graph.cli.printing import is_terminal, line_of
from skills_agent.graph.cli.progress import View

NODE_COLUMN = 9
MAX_LINE = 200


class Plain:
    """One line an event, for pipes and logs."""

    def working(self, node: str, text: str = "") -> None:
        """Say nothing: a line is what was done."""

    def did(self, node: str, text: str) -> None:
        """Print a line."""
        click.echo(f"{node:<{NODE_COLUMN}} {line_of(text, MAX_LINE)}")

    def token(self, text: str) -> None:
        """Say nothing: the answer is printed whole."""


class Quiet:
    """Nothing at all, for machines."""

    def working(self, node: str, text: str = "") -> None:
        """Say nothing."""

    def did(self, node: str, text: str) -> None:
        """Say nothing."""

    def token(self, text: str) -> None:
        """Say nothing."""


@contextmanager
def open_view(*, quiet: bool = False) -> Iterator[View]:
    """Show the progress of one run in the way that stdout can show it."""
    if quiet:
        yield Quiet()
    elif is_terminal():
        from skills_agent.graph.cli.live import live

        with live() as view:
            yield view
    else:
        yield Plain()
