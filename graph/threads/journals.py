"""Where the journal of effects is kept: in an SQLite file. store_journal.py has the one in a store."""

import hashlib
import logging
import shlex
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final

from skills_agent.graph.private_files import ROOM, is_full, open_sqlite
from skills_agent.graph.threads.errors import JournalError
from skills_agent.nodes.effects import JournalEntry

logger = logging.getLogger(__name__)

_VERSION: Final = 1
"""Of the table."""
FIELDS: Final = (
    "thread", "call_id", "tool", "digest", "run", "checkpoint_id", "started", "attempt", "call_key", "status",
    "output_kind", "outputs", "answers", "settled",
)  # fmt: skip
"""The fields of an entry in their order, with `outputs` in two columns."""
_COLUMNS: Final = ", ".join((*FIELDS, "checksum"))
_TABLE: Final = f"CREATE TABLE journal ({_COLUMNS}, PRIMARY KEY (thread, call_id)) WITHOUT ROWID"
_PUT: Final = f"REPLACE INTO journal ({_COLUMNS}) VALUES ({', '.join('?' * (len(FIELDS) + 1))})"  # noqa: S608 - names of our own
_SELECT: Final = f"SELECT {_COLUMNS} FROM journal WHERE thread = :thread"  # noqa: S608 - names of our own
_DELETE: Final = "DELETE FROM journal WHERE thread = :thread"

_WRITABLE: Final = "Make the folder writable, or name another journal: build_graph(journal=...)."
_CHECKSUM: Final = 32
"""Characters of a checksum."""


class SearchedJournal(ABC):
    """A journal that finds entries by their fields."""

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        return next(iter(self._search(thread, call_id=call_id)), None)

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        """Return the entries of a thread with this effect, the oldest start first."""
        return self._search(thread, digest=digest)

    def unsettled(self, thread: str) -> list[JournalEntry]:
        """Return the entries of a thread that are done and not settled."""
        return [each for each in self._search(thread, settled=False) if each.status == "done"]

    @abstractmethod
    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        """Return the entries of a thread that have these fields, the oldest start first."""


class FileJournal(SearchedJournal):
    """A journal in a file, for any number of threads and of processes on one machine.

    The file is opened for each look and each write: one that was removed is made again, and a write is in the
    file itself when it returns, and on the disk but for that of an entry of status `allowed`. A damaged row
    stands for an unknown outcome.
    """

    def __init__(
        self, path: Path | Callable[[], Path], make_folder: Callable[[], object] = lambda: None
    ) -> None:
        """Take the path, or what returns it, and what makes its folder at the first write."""
        self._path_of = path
        self._make_folder = make_folder
        self._lock = Lock()
        self._examined: set[tuple[str, int]] = set()
        """Threads, each with the file that was looked through."""

    @cached_property
    def _path(self) -> Path:
        return self._path_of if isinstance(self._path_of, Path) else self._path_of()

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        """Return the entries of a thread with this effect, and those that are damaged, the oldest first."""
        self._examine(thread)
        entries = [*self._search(thread, digest=digest), *(self._search(thread, digest="") if digest else ())]
        return sorted(entries, key=age)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the removal of the entry of the call id `replacing`."""
        row = row_of(entry)
        with self._connection() as connection:
            # What is merely allowed need not wait for the disk: the next entry brings it there.
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if entry.status == 'allowed' else 'FULL'}")
            with connection:  # commits, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                if replacing is not None:
                    replaced = {"thread": entry.thread, "call_id": replacing}
                    connection.execute(f"{_DELETE} AND call_id = :call_id", replaced)
                connection.execute(_PUT, [*row, checksum_of(row)])

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""
        self._query(_DELETE, thread=thread)

    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        conditions = "".join(f" AND {name} = :{name}" for name in fields)
        rows = self._query(f"{_SELECT}{conditions}", thread=thread, **fields)
        return sorted((_read_row(row, thread) for row in rows), key=age)

    def _examine(self, thread: str) -> None:
        """Look at all rows of a thread once: what a damaged one is of cannot be searched for."""
        with suppress(OSError):
            looked = (thread, self._path.stat().st_ino)
            if looked in self._examined:
                return
            self._examined.add(looked)
        for *row, checksum in self._query(_SELECT, thread=thread):
            if checksum != checksum_of(row):
                logger.warning("journal entry is damaged", extra={"of_thread": thread})
                self.put(JournalEntry.lost(thread, str(row[1]), ""))

    def _query(self, query: str, **parameters: Any) -> list[Any]:
        try:
            self._path.stat()
        except FileNotFoundError:
            return []
        except OSError:
            pass  # The connection says why it cannot be used.
        with self._connection() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                if not self._path.exists():
                    self._make_folder()
                with closing(open_sqlite(self._path, isolation=None)) as connection:
                    # What is no UTF-8 is no error of the whole search, but a damaged row.
                    connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
                    _make_table(connection)
                    yield connection
        except (OSError, sqlite3.Error) as error:
            if not _is_damage(error):
                advice = f"{ROOM} What ran by then is asked about." if is_full(error) else _WRITABLE
                raise JournalError(
                    f"Cannot keep the journal in {self._path}: {error}. Nothing is run that it could not "
                    f"record. {advice}"
                ) from error
            move = shlex.join(["mv", str(self._path), f"{self._path}.damaged"])
            raise JournalError(
                f"The journal {self._path} is damaged ({error}). Nothing is run that it could not record. "
                f"Move it away ({move}): what it knew of calls that were cut off is asked about."
            ) from error


def _make_table(connection: sqlite3.Connection) -> None:
    version = _version(connection)
    if version > _VERSION:
        raise JournalError("The journal was written by a newer version of skills-agent: use that one.")
    if version == _VERSION:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if _version(connection) < _VERSION:  # else another process was first
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def checksum_of(row: Sequence[Any]) -> str:
    """Return what tells a whole row from a damaged one."""
    plain = ["", "", *(int(value) if isinstance(value, bool) else value for value in row)]
    return hashlib.sha256(repr(plain).encode(errors="surrogatepass")).hexdigest()[:_CHECKSUM]


def _read_row(row: Sequence[Any], thread: str) -> JournalEntry:
    """Return the entry in a row of `_SELECT`; for a damaged one, what stands for it."""
    *values, checksum = row
    if checksum_of(values) != checksum:
        return JournalEntry.lost(thread, str(values[1]), "")
    return entry_of(values)


def age(entry: JournalEntry) -> tuple[str, str]:
    """Return what sorts entries by their start."""
    return entry.started, entry.call_id


def _is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    # SQLITE_ERROR: a table or a column is missing, or is there twice; the statements are our own.
    return code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or (
        code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_IOERR_SHORT_READ}
    )


def row_of(entry: JournalEntry) -> list[Any]:
    """Return the values of `FIELDS` of an entry."""
    *fields, outputs, answers, settled = astuple(entry)
    return [*fields, *(outputs or (None, None)), answers, settled]


def entry_of(row: Sequence[Any]) -> JournalEntry:
    """Return the entry with these values of `FIELDS`."""
    *fields, kind, output, answers, settled = row
    values = (*fields, (kind, output) if kind else None, answers, bool(settled))
    return JournalEntry(**dict(zip(JournalEntry.__slots__, values, strict=True)))
