"""Find skills by words: texts that are ranked by the words, and neighbouring words, of a request.

BM25 as SQLite has it finds the right skill among 2,100 as well as a sentence-embedding model once
instructions are indexed beside descriptions. All kinds of text weigh the same: cross-validation over the
requests of 16 repositories chose that (benchmarks/search_triggers.py, docs/benchmarks.md). The tables are of
SQLite's FTS5, which is in the standard library.
"""

import hashlib
import json
import logging
import math
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from skills_agent.skills.search.match import INSTRUCTION_CHARACTERS, Match, SearchText
from skills_agent.skills.search.naming import Names, Naming, attributed, named_first
from skills_agent.skills.search.tokens import TOKENIZER, Query, read_query, script_by_word, scripts_of, spaced

if TYPE_CHECKING:
    from sqlite3 import Connection

Field = Literal["name", "description", "instructions"]
_MATCHES: Final[Mapping[Field, str]] = {
    "name": "SELECT rowid, bm25(name, ?) FROM name WHERE name MATCH ?",
    "description": "SELECT rowid, bm25(description, ?) FROM description WHERE description MATCH ?",
    "instructions": "SELECT rowid, bm25(instructions, ?) FROM instructions WHERE instructions MATCH ?",
}
_IN_SENTENCES: Final[tuple[Field, ...]] = ("description", "instructions")
"""Where neighbouring words say more than each of them: a name is hardly more than a pair."""
_LEAST_BEGINNING: Final = 5
"""Letters of a word that may be the beginning of another one. At four, requests find skills by chance."""
_LEAST_IDF: Final = 1e-6
"""What SQLite takes for the weight of a word that half of the texts have."""
ENOUGH: Final = 1.3
"""A match from here on fits. Four of five requests that authors label with no skill have none."""
_ENOUGH_OF_REQUEST: Final = 0.5
"""Or where name and description have so much of a request: a short one cannot score as high."""
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
        for field in _MATCHES
    ),
)
_Answer = TypeVar("_Answer")
_Hits = list[tuple[int, float]]
"""Rows of a table, and SQLite's scores of them: lower is better."""

logger = logging.getLogger(__name__)


class Term(NamedTuple):
    """A word of a request, and where a text has it."""

    word: str
    rarity: float
    """How much it counts, 0 or more: more if few texts have it."""
    fields: tuple[Field, ...]
    """Empty where the text does not have it."""


class _Totals(NamedTuple):
    """How many rows each table has, and how many rows of the longer ones are written in a script."""

    rows: int
    scripts: Mapping[Field, Mapping[str, int]]

    def shares(self, script: str) -> dict[Field, float]:
        """Return what descriptions and instructions count for a word: by how many have its script.

        Where only the instructions of three skills are in Chinese, any Chinese request would go to them.
        """
        if not any(script in counts for counts in self.scripts.values()):
            return dict.fromkeys(_MATCHES, 1.0)
        shares = {
            field: (counts.get(script, 0) + 1) / (self.rows + 1) for field, counts in self.scripts.items()
        }
        return {"name": 1.0, **{field: share / max(shares.values()) for field, share in shares.items()}}


class TextTables:
    """Full-text tables, in a file that processes share, or without one in a temporary database.

    The file is a cache: while it is locked or cannot be used, a temporary database does its work.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = Lock()
        self._connection: Connection | None = None

    def run(self, work: "Callable[[Connection], _Answer]") -> _Answer:
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


class SearchIndex:
    """Texts that any thread may search; they are indexed at the first search."""

    def __init__(self, texts: Iterable[SearchText], tables: TextTables | None = None) -> None:
        """Take texts, and tables that may be shared: only texts that they do not hold yet are indexed."""
        self._texts = tuple(texts)
        self._tables = tables or TextTables()
        self._positions = {
            f"{text.factor} {text.key or position}": position for position, text in enumerate(self._texts)
        }
        self._state = hashlib.sha256("\n".join(sorted(self._positions)).encode()).hexdigest()
        self._factors = [text.factor for text in self._texts]
        self._names = Names([text.name for text in self._texts])

    def search(self, request: str, limit: int) -> list[Match]:
        """Return the best matches of any word of a request, best first; none where it has no words.

        A score is the sum over words, divided by what the rarest word could weigh and by the square root of
        the number of words. Of equally good ones the first text comes first, and what the request names comes
        before what only matches.
        """
        query = read_query(request)
        if not query.words or limit < 1:
            return []
        matches = self._tables.run(partial(self._run, partial(self._ranked, query)))
        return named_first(matches, self.named(request), self._factors)[:limit]

    def named(self, request: str) -> dict[int, Naming]:
        """Return the positions of the texts that a request names."""
        return self._names.in_request(request)

    def fits(self, request: str, match: Match) -> bool:
        """Return whether a match is good enough to be taken, where a request may be for no skill at all."""
        if match.fit >= ENOUGH or self.named(request).get(match.position) == "written":
            return True
        words = self.terms(request, match.position)
        said = sum(word.rarity for word in words if not {"name", "description"}.isdisjoint(word.fields))
        return 0 < _ENOUGH_OF_REQUEST * sum(word.rarity for word in words) <= said

    def terms(self, request: str, position: int) -> list[Term]:
        """Return where a text has the words of a request."""
        return self._tables.run(partial(self._run, partial(self._terms, read_query(request), position)))

    def _run(self, work: "Callable[[Connection, _Totals], _Answer]", connection: "Connection") -> _Answer:
        """Do work on the tables in one transaction; texts that they lack are indexed before."""
        connection.execute("BEGIN")
        with connection:
            filled = connection.execute(
                "SELECT totals FROM filled WHERE state = ?", (self._state,)
            ).fetchone()
            if filled:
                return work(connection, _Totals(*json.loads(filled[0])))
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            return work(connection, self._fill(connection))

    def _fill(self, connection: "Connection") -> _Totals:
        descriptions = attributed(self._texts)
        wanted = {
            (key, hashlib.sha256(descriptions[position].encode(errors="replace")).hexdigest()): position
            for key, position in self._positions.items()
        }
        indexed = {
            (key, digest): row
            for row, key, digest in connection.execute("SELECT rowid, key, digest FROM texts")
        }
        for text in indexed.keys() - wanted.keys():
            for table in ("texts", *_MATCHES):
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (indexed[text],))  # noqa: S608 - constants
        for key, digest in wanted.keys() - indexed.keys():
            position = wanted[key, digest]
            self._add(connection, key, digest, self._texts[position], descriptions[position])
        totals = _totals(connection)
        connection.execute("DELETE FROM filled")
        connection.execute("INSERT INTO filled VALUES (?, ?)", (self._state, json.dumps(totals)))
        return totals

    def _add(
        self, connection: "Connection", key: str, digest: str, text: SearchText, description: str
    ) -> None:
        written = text.instructions if isinstance(text.instructions, str) else text.instructions()
        instructions = written[:INSTRUCTION_CHARACTERS]
        scripts = (" ".join(scripts_of(description)), " ".join(scripts_of(instructions)))
        added = connection.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", (key, digest, *scripts))
        for field, words in zip(_MATCHES, (text.name, description, instructions), strict=True):
            row = (added.lastrowid, spaced(words))
            connection.execute(f"INSERT INTO {field} (rowid, words) VALUES (?, ?)", row)  # noqa: S608 - a constant

    def _ranked(self, query: Query, connection: "Connection", totals: _Totals) -> list[Match]:
        rows, scores = self._rows_of(connection), _scores(query, connection, totals)
        found = ((-score * self._factors[rows[row]], rows[row]) for row, score in scores.items())
        scale = -1 / (_weight(totals.rows, 0) * math.sqrt(len(query.words)))
        return [Match(at, scale * score, scale * score) for score, at in sorted(found)]

    def _rows_of(self, connection: "Connection") -> dict[int, int]:
        """Return the position of each row."""
        return {row: self._positions[key] for row, key in connection.execute("SELECT rowid, key FROM texts")}

    def _terms(self, query: Query, position: int, connection: "Connection", totals: _Totals) -> list[Term]:
        of_position = {at: row for row, at in self._rows_of(connection).items()}
        terms = []
        for word in query.words:
            hits = _hits(connection, word, dict.fromkeys(_MATCHES, 1.0))
            found = {field: {row for row, _ in of_field} for field, of_field in hits.items()}
            rarity = _weight(totals.rows, len(set().union(*found.values())))
            fields = tuple(field for field in found if of_position[position] in found[field])
            terms.append(Term(word, rarity, fields))
        return terms


def _scores(query: Query, connection: "Connection", totals: _Totals) -> Mapping[int, float]:
    """Return the sum of each row that has any of the words; two that stand side by side count again.

    SQLite's BM25 gives nothing for a word that half of the texts have, which is fatal in a catalog of ten
    skills. So each word is matched alone, its scores are divided by SQLite's weight of the word, and
    multiplied by one that stays above zero.
    """
    sums: defaultdict[int, float] = defaultdict(float)

    def add(hits: _Hits, of_sqlite: float) -> None:
        scale = -_weight(totals.rows, len(hits)) / of_sqlite
        for row, score in hits:
            sums[row] += scale * score

    scripts = script_by_word(query.words)
    shares = {word: totals.shares(script) for word, script in scripts.items()}
    weights: dict[tuple[Field, str], float] = {}
    for word, share in shares.items():
        for field, hits in _hits(connection, word, share).items():
            if hits:
                weights[field, word] = _sqlite_weight(totals.rows, len(hits))
                add(hits, weights[field, word])
    for pair in query.neighbours:
        side_by_side = " ".join(f'"{word}"' for word in pair)
        for field in _IN_SENTENCES:
            if all((field, word) in weights for word in pair):
                values = (max(shares[word][field] for word in pair), f"NEAR({side_by_side}, 1)")
                hits = connection.execute(_MATCHES[field], values).fetchall()
                add(hits, sum(weights[field, word] for word in pair))
    return sums


def _hits(connection: "Connection", word: str, shares: Mapping[Field, float]) -> dict[Field, _Hits]:
    """Return the rows of each table that have a word, with SQLite's scores.

    A word that no text has counts where one begins with it: `postgres` for `PostgreSQL`.
    """
    hits: dict[Field, _Hits] = {}
    for expression in (f'"{word}"', f'"{word}" *')[: 2 if len(word) >= _LEAST_BEGINNING else 1]:
        for field, select in _MATCHES.items():
            hits[field] = connection.execute(select, (shares[field], expression)).fetchall()
        if any(hits.values()):
            break
    return hits


def _weight(texts: int, found: int) -> float:
    return math.log(1 + (texts - found + 0.5) / (found + 0.5))


def _sqlite_weight(texts: int, found: int) -> float:
    return max(math.log((texts - found + 0.5) / (found + 0.5)), _LEAST_IDF)


def _totals(connection: "Connection") -> _Totals:
    kept = connection.execute("SELECT description_scripts, instruction_scripts FROM texts").fetchall()
    described, instructed = (
        Counter(script for texts in kept for script in texts[column].split()) for column in (0, 1)
    )
    return _Totals(len(kept), {"description": described, "instructions": instructed})


def search_texts(entries: Sequence[tuple[str, str]], query: str, limit: int) -> list[tuple[str, float]]:
    """Search pairs of name and description without keeping an index: names and scores, best first."""
    index = SearchIndex(SearchText(name, description) for name, description in entries)
    return [(entries[match.position][0], match.score) for match in index.search(query, limit)]
