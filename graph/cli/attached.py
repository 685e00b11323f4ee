"""What is piped into `ask`: a short text is part of the message, all else a file that the agent reads."""

import hashlib
import io
import select
import sys
from pathlib import Path
from typing import Final

import click

from skills_agent.graph.tools.files import MAX_FILE_BYTES
from skills_agent.skills.text import count

MAX_IN_MESSAGE: Final = 16_000
"""Characters of a text that is part of the message: about 4,000 tokens."""
_PATIENCE: Final = 3
"""Seconds until something must have come: a program may have left a pipe open that it never writes to."""


def read_piped() -> bytes:
    """Return what is piped in; nothing on a terminal. Raises UsageError for more than a file may hold.

    Where nothing comes at all, a line on stderr says that the question is asked without it.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    if not _has_begun():
        note = (
            f"Nothing came on stdin in {_PATIENCE} s: the question is asked without it (none: < /dev/null)."
        )
        click.echo(note, err=True)
        return b""
    piped = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    if len(piped) > MAX_FILE_BYTES:
        raise click.UsageError(f"stdin has more than {MAX_FILE_BYTES:,} bytes: name a file of the workspace")
    return piped


def _has_begun() -> bool:
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # a host put something else there, which has all that it will have
        return True
    return bool(select.select([descriptor], [], [], _PATIENCE)[0])


def with_attached(question: str, piped: bytes, workspace: Path) -> str | list[str | dict[str, str]]:
    """Return the content of the message: the question, and after it what was piped in, or where it is.

    In a block of its own: what it says is no word of the person, and names no skill to load.
    """
    if not piped.strip():
        return question
    try:
        text = piped.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is not None and "\0" not in text and len(text) <= MAX_IN_MESSAGE:
        lines = count(len(text.splitlines()), "line")
        attached = f"From stdin ({lines}, to the end of this message):\n\n{text}"
    else:
        kind = f"{len(piped):,} bytes" if text is None else f"{count(len(text.splitlines()), 'line')} of text"
        attached = f"Stdin is in the file {_keep(piped, workspace)} ({kind})."
    return [{"type": "text", "text": question}, {"type": "text", "text": f"\n\n{attached}"}]


def _keep(piped: bytes, workspace: Path) -> str:
    """Write a file of the workspace, where tools and scripts reach it, and return its name.

    Sent again, the same content has the same name: the message of a request is the same, too.
    """
    name = f"stdin-{hashlib.sha256(piped).hexdigest()[:12]}.txt"
    try:
        (workspace / name).unlink(missing_ok=True)  # a link to elsewhere, say
        with (workspace / name).open("xb") as file:
            file.write(piped)
    except OSError as error:
        raise click.ClickException(f"Cannot keep stdin in {workspace / name}: {error.strerror}.") from error
    return name
