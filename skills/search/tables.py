"""The full-text tables that searches run on: made once, and then only told what has changed.

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


class Wanted(NamedTuple):
    """The texts that a search is over."""

    state: str
    """Differs when any of the keys does."""
    keys: Collection[str]
    row: Callable[[str], TextRow]
    """Gives the text of a key that is not indexed yet."""


class Question(NamedTuple):
    """A query for FTS5."""

    expression: str
    weights: tuple[float, float, float]
    """Of name, description, instructions."""
    limit: int


class Found(NamedTuple):
    """A text that matches, and how well."""

    key: str
    score: float


class TextTables(Protocol):
    """A place for full-text tables."""

    def search(self, wanted: Wanted, question: Question) -> list[Found]:
        """Search the texts that are wanted, indexing those that are not indexed yet; best first."""
        ...


class TemporaryTables:
    """Tables of this process alone, in a database without a name that SQLite moves to disk as it grows."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shelf: Shelf | None = None
        self._state = ""

    def search(self, wanted: Wanted, question: Question) -> list[Found]:
        """Search the texts that are wanted, indexing those that are not indexed yet; best first."""
        with self._lock:
            if self._shelf is None:
                # Only searching needs SQLite, and `skills list` should not wait for its import.
                import sqlite3  # noqa: PLC0415

                connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
                weakref.finalize(self, connection.close)
                self._shelf = Shelf(connection)
                self._shelf.create()
            if self._state != wanted.state:
                self._shelf.connection.execute("BEGIN")
                with self._shelf.connection:
                    self._shelf.fill(wanted)
                self._state = wanted.state
            return self._shelf.ask(question)


class Shelf(NamedTuple):
    """The tables of one catalog in a database that may hold those of others."""

    connection: "Connection"
    number: int = 0

    def create(self) -> None:
        """Make the tables."""
        self._run("CREATE TABLE texts_# (key TEXT UNIQUE, name TEXT, factor REAL)")
        self._run(f"CREATE VIRTUAL TABLE labels_# USING fts5(name, description, {_TOKENS})")
        self._run(f"CREATE VIRTUAL TABLE bodies_# USING fts5(instructions, {_TOKENS})")

    def drop(self) -> None:
        """Remove the tables."""
        for table in ("texts_#", "labels_#", "bodies_#"):
            self._run(f"DROP TABLE IF EXISTS {table}")

    def fill(self, wanted: Wanted) -> None:
        """Take out the texts that are not wanted any more, and index those that are new."""
        held = {key: number for number, key in self._run("SELECT rowid, key FROM texts_#")}
        for key in held.keys() - wanted.keys:
            self._run("DELETE FROM texts_# WHERE rowid = ?", held[key])
            self._run("DELETE FROM labels_# WHERE rowid = ?", held[key])
            self._run("DELETE FROM bodies_# WHERE rowid = ?", held[key])
        for key in wanted.keys:
            if key not in held:
                self._add(key, wanted.row(key))

    def ask(self, question: Question) -> list[Found]:
        """Return the best matches; of equal ones the first by name."""
        for_name, for_description, for_instructions = question.weights
        rows = self._run(
            """
            SELECT key, factor * sum(score) AS total FROM (
                SELECT rowid AS number, -bm25(labels_#, ?, ?) AS score FROM labels_# WHERE labels_# MATCH ?
                UNION ALL
                SELECT rowid, -bm25(bodies_#) * ? FROM bodies_# WHERE bodies_# MATCH ?
            ) JOIN texts_# AS texts ON texts.rowid = number
            GROUP BY number ORDER BY total DESC, name, key LIMIT ?
            """,
            *(for_name, for_description, question.expression),
            *(for_instructions, question.expression, question.limit),
        )
        return [Found(key, score) for key, score in rows]

    def _add(self, key: str, row: TextRow) -> None:
        number = self._run("INSERT INTO texts_# VALUES (?, ?, ?)", key, row.name, row.factor).lastrowid
        self._run(
            "INSERT INTO labels_# (rowid, name, description) VALUES (?, ?, ?)",
            *(number, row.name, row.description),
        )
        if row.instructions:
            self._run("INSERT INTO bodies_# (rowid, instructions) VALUES (?, ?)", number, row.instructions)

    def _run(self, sql: str, *values: float | str | None) -> "Cursor":
        """Run a statement in which `#` stands for the number of the shelf."""
        return self.connection.execute(sql.replace("#", str(self.number)), values)
