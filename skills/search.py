"""Find skills by words: SQLite's FTS5 in memory, names weighing more than descriptions.

It is in the standard library, and finds the right skill among 2,100 as well as a sentence-embedding model
once instructions are indexed beside descriptions.
"""

import re
import weakref
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final, NamedTuple

_WORD = re.compile(r"\w+")
_MAX_WORDS: Final = 64
"""Words of a query that count: a pasted document is no query."""
_WEIGHTS: Final = (4.0, 2.0, 1.0)
"""Of a hit in a name, a description, the instructions."""


class SearchText(NamedTuple):
    """What can be found of one skill."""

    name: str
    description: str
    instructions: str = ""


class Match(NamedTuple):
    """The place of a text among those indexed, and how well it matches: higher is better, above 0."""

    position: int
    score: float


class SearchIndex:
    """Texts indexed once, to be searched by any thread."""

    def __init__(self, texts: Iterable[SearchText]) -> None:
        """Index the texts in the order given, which also breaks ties."""
        # Only searching needs SQLite, and `skills list` should not wait for its import.
        import sqlite3  # noqa: PLC0415

        self._lock = Lock()
        self._rows = sqlite3.connect(":memory:", check_same_thread=False)
        # From Python 3.13 on, a connection that is not closed is a warning.
        weakref.finalize(self, self._rows.close)
        self._rows.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(name, description, instructions,"
            " tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        rows = ((position, *text) for position, text in enumerate(texts))
        self._rows.executemany(
            "INSERT INTO texts (rowid, name, description, instructions) VALUES (?, ?, ?, ?)", rows
        )

    def search(self, query: str, limit: int) -> list[Match]:
        """Return the best matches of any word of the query, best first; none for a query without words."""
        words = dict.fromkeys(_WORD.findall(query.replace("\0", " ").replace("_", " ").lower()))
        expression = " OR ".join(f'"{word}"' for word in list(words)[:_MAX_WORDS])
        if not expression or limit < 1:
            return []
        with self._lock:
            rows = self._rows.execute(
                "SELECT rowid, bm25(texts, ?, ?, ?) AS badness FROM texts WHERE texts MATCH ?"
                " ORDER BY badness, rowid LIMIT ?",
                (*_WEIGHTS, expression, limit),
            ).fetchall()
        return [Match(int(position), -float(badness)) for position, badness in rows]


def search_texts(entries: Sequence[tuple[str, str]], query: str, limit: int) -> list[tuple[str, float]]:
    """Search pairs of name and description without keeping an index: names and scores, best first."""
    index = SearchIndex(SearchText(name, description) for name, description in entries)
    return [(entries[match.position][0], match.score) for match in index.search(query, limit)]
