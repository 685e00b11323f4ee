"""The full-text tables that searches run on: made once, and then given only the texts that have changed.

Labels (name and description) and bodies (instructions) are two tables, because BM25 divides by the length
of a whole row: in one table a skill with long instructions could hardly be found by its description.
"""

import weakref
from collections.abc import Callable, Collection
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from sqlite3 import Connection, Cursor

_TOKENS: Final = "tokenize = 'porter unicode61 remove_diacritics 2'"


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


class TextTables(Protocol):
    """A place for full-text tables."""

    def search(self, query: TextQuery) -> dict[str, float]:
        """Return the scores of the best matches by their keys, best first; index what is new before."""
        ...


class TemporaryTables:
    """Tables of this process alone, in a database without a name that SQLite moves to disk as it grows."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: CatalogTables | None = None
        self._state = ""

    def search(self, query: TextQuery) -> dict[str, float]:
        """Return the scores of the best matches by their keys, best first; index what is new before."""
        with self._lock:
            if self._tables is None:
                # Only searching needs SQLite, and `skills list` should not wait for its import.
                import sqlite3  # noqa: PLC0415

                connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
                weakref.finalize(self, connection.close)
                self._tables = CatalogTables(connection)
                self._tables.create()
            if self._state != query.state:
                self._tables.connection.execute("BEGIN")
                with self._tables.connection:
                    self._tables.fill(query)
                self._state = query.state
            return self._tables.search(query)


class CatalogTables(NamedTuple):
    """The tables of one catalog in a database that may hold those of others."""

    connection: "Connection"
    number: int = 0

    def create(self) -> None:
        """Make the tables, empty."""
        self._run("CREATE TABLE texts_# (key TEXT UNIQUE, name TEXT, factor REAL)")
        self._run(f"CREATE VIRTUAL TABLE labels_# USING fts5(name, description, {_TOKENS})")
        self._run(f"CREATE VIRTUAL TABLE bodies_# USING fts5(instructions, {_TOKENS})")

    def drop(self) -> None:
        """Remove the tables."""
        for table in ("texts_#", "labels_#", "bodies_#"):
            self._run(f"DROP TABLE IF EXISTS {table}")

    def fill(self, query: TextQuery) -> None:
        """Make the tables hold exactly the texts of a query."""
        indexed = {key: number for number, key in self._run("SELECT rowid, key FROM texts_#")}
        for key in indexed.keys() - query.keys:
            for table in ("texts_#", "labels_#", "bodies_#"):
                self._run(f"DELETE FROM {table} WHERE rowid = ?", indexed[key])  # noqa: S608 - constants
        for key in query.keys:
            if key not in indexed:
                self._add(key, query.row(key))

    def search(self, query: TextQuery) -> dict[str, float]:
        """Return the scores of the best matches by their keys: best first, equal ones by name."""
        name_weight, description_weight, instructions_weight = query.weights
        rows = self._run(
            """
            SELECT key, factor * sum(score) AS total FROM (
                SELECT rowid AS number, -bm25(labels_#, ?, ?) AS score FROM labels_# WHERE labels_# MATCH ?
                UNION ALL
                SELECT rowid, -bm25(bodies_#) * ? FROM bodies_# WHERE bodies_# MATCH ?
            ) JOIN texts_# AS texts ON texts.rowid = number
            GROUP BY number ORDER BY total DESC, name, key LIMIT ?
            """,
            *(name_weight, description_weight, query.expression),
            *(instructions_weight, query.expression, query.limit),
        )
        return dict(rows)

    def _add(self, key: str, row: TextRow) -> None:
        number = self._run("INSERT INTO texts_# VALUES (?, ?, ?)", key, row.name, row.factor).lastrowid
        self._run(
            "INSERT INTO labels_# (rowid, name, description) VALUES (?, ?, ?)",
            *(number, row.name, row.description),
        )
        if row.instructions:
            self._run("INSERT INTO bodies_# (rowid, instructions) VALUES (?, ?)", number, row.instructions)

    def _run(self, sql: str, *values: float | str | None) -> "Cursor":
        """Run a statement in which `#` stands for the number of the catalog."""
        return self.connection.execute(sql.replace("#", str(self.number)), values)
