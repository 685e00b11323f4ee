"""Say on a terminal what takes a while, until it is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def loading() -> Iterator[None]:
    """Say that something is loaded while it is: LangGraph takes most of a second."""
    text = "Loading ..." if sys.stderr.isatty() else ""
    click.echo(text, nl=False, err=True)
    try:
        yield
    finally:
        click.echo(text and f"\r{' ' * len(text)}\r", nl=False, err=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what is being done, and for how long."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    console, is_silent = Console(stderr=True), not sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=is_silent) as progress:
        progress.add_task(text, total=None)
        yield
