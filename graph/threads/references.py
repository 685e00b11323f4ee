"""Which snapshots of skills the threads of this user need: found by looking into what keeps them.

Every load notes beside the snapshot where its thread is kept. A snapshot is needed while its digest stands
anywhere there, so forks and earlier steps of a thread count, too. A place that cannot be searched from here
needs everything that was noted for it.
"""

import os
import re
import sqlite3
import zlib
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from skills_agent.graph.langgraph_inside import kind_of

_PROCESS: Final = "process "
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")
_UNREADABLE: Final = re.compile(r"\w+\+(?!zlib)\w+")
"""What a serializer that encrypts puts into the column `type`."""


def address_of(saver: BaseCheckpointSaver[Any]) -> str:
    """Return where a saver keeps threads: a file, this process, or the name of a kind of server."""
    if kind_of(saver) == "memory":
        return f"{_PROCESS}{os.getpid()}"
    connection = getattr(saver, "conn", None)
    if isinstance(connection, sqlite3.Connection):
        (*_, file) = connection.execute("PRAGMA database_list").fetchone()
        return file or f"{_PROCESS}{os.getpid()}"
    return type(saver).__name__


def needed_in(address: str, digests: Collection[str]) -> set[str]:
    """Return which snapshots the threads at an address need."""
    if address.startswith(_PROCESS):
        return set(digests) if _is_alive(address.removeprefix(_PROCESS)) else set()
    file = Path(address)
    if file.is_absolute() and not file.exists():
        return set()
    try:
        return set(digests).intersection(_digests_in(file) if file.is_absolute() else digests)
    except (sqlite3.Error, OSError, _UnreadableError):
        return set(digests)


class _UnreadableError(Exception):
    """The values of a database cannot be searched."""


def _digests_in(file: Path) -> Iterator[str]:
    """Yield the digests that stand in a database of threads."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        for (table,) in connection.execute(query).fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - a name of the database itself
                for value in row:
                    for digest in _DIGEST.findall(_plain(value)):
                        yield digest.decode("ascii")


def _plain(value: object) -> bytes:
    if isinstance(value, bytes):
        with suppress(zlib.error):
            return zlib.decompress(value)
        return value
    if isinstance(value, str) and _UNREADABLE.fullmatch(value):
        raise _UnreadableError
    return str(value).encode(errors="replace")


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
