"""Which snapshots of skills the threads of this user need.

Every load notes beside the snapshot where its thread is kept; it is needed while its digest stands there.
"""

import os
import re
import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


_PROCESS: Final = "process "
MAX_VALUE: Final = 1 << 30
"""Bytes of one value, unpacked; SQLite stores no larger one."""
_ENCRYPTED: Final = re.compile(r"\w+\+(?!zlib)\w+")
"""What a serializer that encrypts puts into the column `type`."""


def address_of(saver: "BaseCheckpointSaver[Any]") -> str:
    """Return where a saver keeps threads: a file, this process, or the name of a kind of server."""
    from skills_agent.graph.langgraph_inside import kind_of  # the doctor does without LangGraph

    if kind_of(saver) == "memory":
        return f"{_PROCESS}{os.getpid()}"
    connection = getattr(saver, "conn", None)
    if isinstance(connection, sqlite3.Connection):
        (*_, file) = connection.execute("PRAGMA database_list").fetchone()
        return file or f"{_PROCESS}{os.getpid()}"
    return type(saver).__name__


def is_needed(digest: str, address: str) -> bool:
    """Return whether a thread at an address needs a snapshot; True where that cannot be told."""
    if address.startswith(_PROCESS):
        return _is_alive(address.removeprefix(_PROCESS))
    file = Path(address)
    try:
        return not file.is_absolute() or (file.exists() and _has(digest.encode(), file))
    except (sqlite3.Error, OSError):
        return True


def _has(digest: bytes, file: Path) -> bool:
    """Return whether a database has a digest, or what is encrypted, which may."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        for (table,) in connection.execute(query).fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - a name of the database itself
                if any(_is_encrypted(value) or digest in _plain(value) for value in row):
                    return True
    return False


def _is_encrypted(value: object) -> bool:
    return isinstance(value, str) and _ENCRYPTED.fullmatch(value) is not None


def _plain(value: object) -> bytes:
    if isinstance(value, bytes):
        with suppress(zlib.error):
            return zlib.decompressobj().decompress(value, MAX_VALUE)
        return value
    return str(value).encode(errors="replace")


def _is_alive(process: str) -> bool:
    try:
        with suppress(PermissionError):
            os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    return True
