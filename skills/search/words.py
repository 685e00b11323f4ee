"""Find skills by words: which words of a query count, and the tables that rank texts by them.

SQLite's FTS5 is in the standard library, and finds the right skill among 2,100 as well as a
sentence-embedding model once instructions are indexed beside descriptions. The numbers of `SearchSetting`
were chosen by leave-one-repository-out cross-validation: benchmarks/search_triggers.py, docs/benchmarks.md.
"""

import hashlib
import logging
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from sqlite3 import Connection

_WORD = re.compile(r"\w+")
_MAX_WORDS: Final = 64
"""Words of a query that count: a pasted document is no query."""
_FUNCTION_WORDS: Final = """
a about above after again all also am an and any are as at be been before being but by can could d did
do does doing don down during each few for from further had has have having he her here hers him his how
i if in into is it its itself just let like ll m me more most my need no nor not now of off on once only
or other our out over own please re s same she should so some such t than that the their them then there
these they this those through to too under until up us use using ve very want was we were what when
where which while who whom why will with would you your
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""They say nothing about a task, and in a catalog of ten skills a rare `please` would weigh like a name."""
# Compiled when a text first needs them: a process that lists skills should not wait for that.
_HIRAGANA: Final = "[\u3040-\u309f]+"
_KATAKANA: Final = "[\u30a0-\u30ff]+"
_HAN: Final = "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
_TOKENS: Final = "tokenize = 'porter unicode61 remove_diacritics 2'"
_WAIT: Final = 2.0
"""Seconds, for another process that fills the tables."""
# Labels and bodies (instructions) are two tables, because BM25 divides by the length of a whole row: in one
# table a skill with long instructions could hardly be found by its description.
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
_Rows = list[tuple[str, float]]
"""Keys of texts and their scores, best first."""

logger = logging.getLogger(__name__)


class SearchSetting(NamedTuple):
    """The weight of each kind of text, and how much of each skill is indexed."""

    name: float = 8.0
    description: float = 1.0
    instructions: float = 1.0
    instruction_characters: int = 16_000
    """Of one skill; 0 indexes descriptions alone."""
    skip_function_words: bool = True


class SearchText(NamedTuple):
    """The texts by which one skill is found."""

    name: str
    description: str
    instructions: str | Callable[[], str] = ""
    """A function is called when the text is first indexed."""
    key: str = ""
    """Differs when any of the texts may: a key that is indexed is not indexed again."""
    factor: float = 1.0
    """What its scores are multiplied with."""


class Match(NamedTuple):
    """The position of a text among those indexed, and how well it matches: higher is better, above 0."""

    position: int
    score: float


class TextTables:
    """Full-text tables, in a file that processes share, or without one in a temporary database.

    The file is a cache: while it is locked or cannot be used, a temporary database does its work.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = Lock()
        self._connection: Connection | None = None

    def run(self, work: "Callable[[Connection], _Rows]") -> _Rows:
        """Return what work on the tables gives; no other thread works on them meanwhile."""
        # Only searching needs SQLite, and `skills list` should not wait for its import.
        import sqlite3  # noqa: PLC0415

        with self._lock:
            try:
                return work(self._open())
            except (sqlite3.DatabaseError, OSError) as error:
                if self._file is None:
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


class SearchIndex:
    """Texts that any thread may search; they are indexed at the first search."""

    def __init__(
        self,
        texts: Iterable[SearchText],
        tables: TextTables | None = None,
        setting: SearchSetting = SearchSetting(),  # noqa: B008 - an immutable value
    ) -> None:
        """Take texts, and tables that may be shared: only texts that they do not hold yet are indexed."""
        self._texts = tuple(texts)
        self._tables = tables or TextTables()
        self._setting = setting
        self._positions = {
            f"{text.factor} {setting.instruction_characters} {text.key or position}": position
            for position, text in enumerate(self._texts)
        }
        self._state = hashlib.sha256("\n".join(sorted(self._positions)).encode()).hexdigest()

    def search(self, request: str, limit: int) -> list[Match]:
        """Return the best matches of any word of a request, best first; none where it has no words."""
        setting = self._setting
        words = query_words(request, skip_function_words=setting.skip_function_words)
        if not words or limit < 1:
            return []
        expression = " OR ".join(f'"{word}"' for word in words)
        labels = (setting.name, setting.description, expression)
        bodies = (setting.instructions, expression)
        rows = self._tables.run(partial(self._rows, values=(*labels, *bodies, limit)))
        return [Match(self._positions[key], score) for key, score in rows]

    def _rows(self, connection: "Connection", values: tuple[object, ...]) -> _Rows:
        connection.execute("BEGIN")
        with connection:
            if connection.execute("SELECT state FROM filled").fetchone() == (self._state,):
                return connection.execute(_SEARCH, values).fetchall()
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            self._fill(connection)
            return connection.execute(_SEARCH, values).fetchall()

    def _fill(self, connection: "Connection") -> None:
        indexed = dict(connection.execute("SELECT key, rowid FROM texts"))
        for key in indexed.keys() - self._positions.keys():
            for table in ("texts", "labels", "bodies"):
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (indexed[key],))  # noqa: S608 - constants
        for key in self._positions.keys() - indexed.keys():
            self._add(connection, key)
        connection.execute("DELETE FROM filled")
        connection.execute("INSERT INTO filled VALUES (?)", (self._state,))

    def _add(self, connection: "Connection", key: str) -> None:
        text = self._texts[self._positions[key]]
        added = connection.execute("INSERT INTO texts VALUES (?, ?, ?)", (key, text.name, text.factor))
        label = (added.lastrowid, text.name, spaced(text.description))
        connection.execute("INSERT INTO labels (rowid, name, description) VALUES (?, ?, ?)", label)
        written = text.instructions if isinstance(text.instructions, str) else text.instructions()
        if instructions := written[: self._setting.instruction_characters]:
            body = (added.lastrowid, spaced(instructions))
            connection.execute("INSERT INTO bodies (rowid, instructions) VALUES (?, ?)", body)


def query_words(query: str, *, skip_function_words: bool = True) -> list[str]:
    """Return the distinct words of a query that are searched for; all of them if no other is left."""
    written = spaced(query.replace("\0", " ").replace("_", " ").lower())
    words = list(dict.fromkeys(_WORD.findall(written)))
    content_words = [word for word in words if word not in FUNCTION_WORDS] if skip_function_words else []
    return (content_words or words)[:_MAX_WORDS]


def spaced(text: str) -> str:
    """Put blanks into Chinese and Japanese, which are written without: FTS5 would take a clause for a word.

    Han becomes overlapping pairs of characters, a run of katakana is a word, and hiragana, which is mostly
    grammar, is left out.
    """
    if text.isascii():
        return text
    return re.sub(_HAN, _pairs, re.sub(_KATAKANA, r" \g<0> ", re.sub(_HIRAGANA, " ", text)))


def _pairs(run: re.Match[str]) -> str:
    characters = run[0]
    pairs = (characters[start : start + 2] for start in range(max(len(characters) - 1, 1)))
    return f" {' '.join(pairs)} "


def search_texts(entries: Sequence[tuple[str, str]], query: str, limit: int) -> list[tuple[str, float]]:
    """Search pairs of name and description without keeping an index: names and scores, best first."""
    index = SearchIndex(SearchText(name, description) for name, description in entries)
    return [(entries[match.position][0], match.score) for match in index.search(query, limit)]
