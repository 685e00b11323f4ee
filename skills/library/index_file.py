"""The persisted index: one SQLite file in the user's cache, shared by concurrent processes.

It is a cache: whatever is wrong with it, work goes on without. A locked file is left alone this time, a
damaged one or one of another version is made anew, one that cannot be written is not used any more.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Final, TypeVar

VERSION: Final = 1
"""Of the tables: raise it when they are others."""
_APPLICATION: Final = 0x5347_4E54
_TABLES: Final = (
    "CREATE TABLE sources (key TEXT PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE pieces (source TEXT, start INTEGER, content BLOB, PRIMARY KEY (source, start))",
    "CREATE TABLE shelves (number INTEGER PRIMARY KEY, key TEXT UNIQUE, state TEXT, used INTEGER NOT NULL)",
)

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


class IndexFile:
    """An SQLite file that is opened for each use: it may vanish or be replaced between two."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._usable = True

    def read(self, work: Callable[[Connection], Result], patience: float) -> Result | None:
        """Return what reading one state of the file gives; None where it cannot be read.

        `patience` is how many seconds to wait for other processes.
        """
        return self._attempt("BEGIN", work, patience)

    def write(self, work: Callable[[Connection], Result], patience: float) -> Result | None:
        """Change the file, wholly or not at all; None where it was not changed."""
        return self._attempt("BEGIN IMMEDIATE", work, patience)

    def _attempt(self, begin: str, work: Callable[[Connection], Result], patience: float) -> Result | None:
        if not self._usable:
            return None
        for last in (False, True):
            try:
                with self._opened(patience) as connection:
                    connection.execute(begin)
                    with connection:
                        return work(connection)
            except sqlite3.DatabaseError as error:
                if last or not self._recover(error):
                    logger.warning("index not used: %s", error, extra={"path": str(self._path)})
                    return None
            except OSError as error:
                self._usable = False
                logger.warning("index not used: %s", error, extra={"path": str(self._path)})
                return None
        return None

    def _recover(self, error: sqlite3.DatabaseError) -> bool:
        """Remove a damaged file; tell whether another attempt makes sense."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
            self._usable = False
        damaged = code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT} or "no such table" in str(error)
        if not damaged:
            return False
        logger.warning("index damaged, made anew: %s", error, extra={"path": str(self._path)})
        # The journals first: left over, they would be taken for those of the new file.
        for suffix in ("-journal", "-wal", "-shm", ""):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        return True

    @contextmanager
    def _opened(self, patience: float) -> Iterator[Connection]:
        if not self._path.exists():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
        connection = sqlite3.connect(self._path, timeout=patience, isolation_level=None)
        try:
            _prepare(connection)
            yield connection
        finally:
            connection.close()


def _prepare(connection: Connection) -> None:
    """Make the tables, in place of those of another version."""
    if _version(connection) == (_APPLICATION, VERSION):
        return
    if not _names(connection, "true"):
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("PRAGMA journal_mode = WAL").close()
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if _version(connection) == (_APPLICATION, VERSION):  # another process was faster
            return
        if _version(connection)[0] != _APPLICATION and _names(connection, "true"):
            raise sqlite3.DatabaseError("the file is the database of another program")
        for table in _names(connection, "sql LIKE 'CREATE VIRTUAL%'"):  # their shadows go with them
            connection.execute(f'DROP TABLE "{table}"')
        for table in _names(connection, "name NOT LIKE 'sqlite_%'"):
            connection.execute(f'DROP TABLE "{table}"')
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _names(connection: Connection, condition: str) -> list[str]:
    found = connection.execute(f"SELECT name FROM sqlite_master WHERE type = 'table' AND {condition}")  # noqa: S608 - conditions of our own
    return [name for (name,) in found]
