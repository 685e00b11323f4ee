"""The database of full-text tables: SQLite's FTS5, which is in the standard library."""

import logging
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from skills_agent.skills.search.tokens import TOKENIZER

if TYPE_CHECKING:
    from sqlite3 import Connection

_WAIT: Final = 2.0
"""Seconds, for another process that fills the tables."""
# Each field has a table of its own, because BM25 divides by the length of a whole row, and weighs a word by
# how many rows have it: in one table a skill with long instructions could hardly be found by its description,
# and one with a long description hardly by its name.
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS texts
    (key TEXT, digest TEXT, description_scripts TEXT, instruction_scripts TEXT)""",
    "CREATE TABLE IF NOT EXISTS filled (state TEXT, totals TEXT)",
    *(
        f'CREATE VIRTUAL TABLE IF NOT EXISTS {field} USING fts5(words, tokenize = "{TOKENIZER}")'
        for field in ("name", "description", "instructions")
    ),
)
_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)


class TextTables:
    """Full-text tables, in a file that processes share, or without one in a temporary database.

    The file is a cache: while it is locked or cannot be used, a temporary database does its work.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = Lock()
        self._connection: Connection | None = None

    def run(self, work: "Callable[[Connection], _Result]") -> _Result:
        """Return what work on the tables gives; no other thread works on them meanwhile."""
        # Only searching needs SQLite, and `skills list` should not wait for its import.
        import sqlite3  # noqa: PLC0415

        with self._lock:
            try:
                return work(self._open())
            except (sqlite3.DatabaseError, OSError, LookupError, TypeError, ValueError) as error:
                if self._file is None:  # so a fault of the work is raised by its second attempt
                    raise
                logger.warning("index not used: %s", error, extra={"path": str(self._file)})
                if not isinstance(error, (sqlite3.OperationalError, OSError)):  # damaged
                    # The journal first: left over, it would be taken for that of the next file.
                    self._file.with_name(f"{self._file.name}-journal").unlink(missing_ok=True)
                    self._file.unlink(missing_ok=True)
                self._file = self._connection = None
                return work(self._open())

    def _open(self) -> "Connection":
        if self._connection is None:
            import sqlite3  # noqa: PLC0415 - as above

            if self._file is not None:
                self._file.touch(mode=0o600)
            # SQLite moves a database without a name to disk as it grows.
            connection = sqlite3.connect(
                self._file or "", timeout=_WAIT, check_same_thread=False, isolation_level=None
            )
            weakref.finalize(self, connection.close)
            for statement in _TABLES:
                connection.execute(statement)
            self._connection = connection
        return self._connection
