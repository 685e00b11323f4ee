"""What a person reads of the log: warnings that no line of progress says."""

import logging
from typing import Final

import click

from skills_agent.graph.cli.printing import shown

SHOWN: Final = frozenset(
    {
        "load limit reached",
        "loaded skill differs on disk",
        "no summary by the model",
        "tool blocked by policy",
    }
)
"""Messages about steps that `progress` tells of in a line of their own, and `--json` in the object it prints.

For a program they are the way to know; a person would read them twice.
"""


class _Stderr(logging.Handler):
    """Writes to what stderr is at the moment: a spinner puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(shown(self.format(record)), err=True)


def print_warnings() -> None:
    """Print warnings of this package on stderr, as Python does by itself, without those that are shown."""
    handler = _Stderr(logging.WARNING)
    handler.addFilter(lambda record: record.msg not in SHOWN)
    logging.getLogger("skills_agent").addHandler(handler)
