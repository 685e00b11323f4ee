"""The full-text tables that searches run on: made once, and then given only the texts that have changed.

Labels (name and description) and bodies (instructions) are two tables, because BM25 divides by the length
of a whole row: in one table a skill with long instructions could hardly be found by its description.
"""

import logging
import weakref
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from sqlite3 import Connection

_TOKENS: Final = "tokenize = 'porter unicode61 remove_diacritics 2'"
_WAIT: Final = 2.0
"""Seconds, for another process that fills the tables."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS texts (key TEXT UNIQUE, name TEXT, factor REAL)",
    "CREATE TABLE IF NOT EXISTS filled (state TEXT)",
    f"CREATE VIRTUAL TABLE IF NOT EXISTS labels USING fts5(name, description, {_TOKENS})",
    f"CREATE VIRTUAL TABLE IF NOT EXISTS bodies USING fts5(instructions, {_TOKENS})",
)
_SEARCH: Final = """
SELECT key, factor * sum(score) AS total FROM (
    SELECT rowid AS number, -bm25(labels, ?, ?) AS score FROM labels WHERE labels MATCH ?
    UNION ALL
    SELECT rowid, -bm25(bodies) * ? FROM bodies WHERE bodies MATCH ?
) JOIN texts ON texts.rowid = number
GROUP BY number ORDER BY total DESC, name, key LIMIT ?
"""

logger = logging.getLogger(__name__)


class TextRow(NamedTuple):
    """One text as it is indexed."""

    name: str
    description: str
    instructions: str
    factor: float
    """What its scores are multiplied with."""


class TextQuery(NamedTuple):
    """A search, and the texts that it is over."""

    state: str
    """Differs when any of the keys does."""
    keys: Collection[str]
    row: Callable[[str], TextRow]
    """Gives the text of a key that is not indexed yet."""
    expression: str
    """For FTS5."""
    weights: tuple[float, float, float]
    """Of name, description, instructions."""
    limit: int


class TextTables:
    """The tables of one catalog, in a file that processes share, or without one in a temporary database.

    The file is a cache: while it is locked or cannot be used, a temporary database does its work.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = Lock()
        self._connection: Connection | None = None

    def search(self, query: TextQuery) -> dict[str, float]:
        """Return the scores of the best matches by their keys, best first; index what is new before."""
        # Only searching needs SQLite, and `skills list` should not wait for its import.
        import sqlite3  # noqa: PLC0415

        with self._lock:
            try:
                return _search(self._open(), query)
            except (sqlite3.DatabaseError, OSError) as error:
                if self._file is None:
                    raise
                logger.warning("index not used: %s", error, extra={"path": str(self._file)})
                if not isinstance(error, (sqlite3.OperationalError, OSError)):  # damaged
                    # The journal first: left over, it would be taken for that of the next file.
                    self._file.with_name(f"{self._file.name}-journal").unlink(missing_ok=True)
                    self._file.unlink(missing_ok=True)
                self._file = self._connection = None
                return _search(self._open(), query)

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


def _search(connection: "Connection", query: TextQuery) -> dict[str, float]:
    connection.execute("BEGIN")
    with connection:
        if connection.execute("SELECT state FROM filled").fetchone() == (query.state,):
            return _matches(connection, query)
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        _fill(connection, query)
        return _matches(connection, query)


def _fill(connection: "Connection", query: TextQuery) -> None:
    """Make the tables hold exactly the texts of a query."""
    indexed = dict(connection.execute("SELECT key, rowid FROM texts"))
    for key in indexed.keys() - query.keys:
        for table in ("texts", "labels", "bodies"):
            connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (indexed[key],))  # noqa: S608 - constants
    for key in query.keys:
        if key not in indexed:
            _add(connection, key, query.row(key))
    connection.execute("DELETE FROM filled")
    connection.execute("INSERT INTO filled VALUES (?)", (query.state,))


def _add(connection: "Connection", key: str, row: TextRow) -> None:
    added = connection.execute("INSERT INTO texts VALUES (?, ?, ?)", (key, row.name, row.factor))
    label = (added.lastrowid, row.name, row.description)
    connection.execute("INSERT INTO labels (rowid, name, description) VALUES (?, ?, ?)", label)
    if row.instructions:
        body = (added.lastrowid, row.instructions)
        connection.execute("INSERT INTO bodies (rowid, instructions) VALUES (?, ?)", body)


def _matches(connection: "Connection", query: TextQuery) -> dict[str, float]:
    """Return the scores of the best matches by their keys: best first, equal ones by name."""
    name_weight, description_weight, instructions_weight = query.weights
    labels = (name_weight, description_weight, query.expression)
    bodies = (instructions_weight, query.expression)
    return dict(connection.execute(_SEARCH, (*labels, *bodies, query.limit)).fetchall())
