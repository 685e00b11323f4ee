"""Where the journal of effects is kept: in an SQLite file, or in LangGraph's store."""

import hashlib
import logging
import shlex
import sqlite3
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import msgspec
from langgraph.store.base import BaseStore, Item, PutOp

from skills_agent.graph.private_files import ROOM, is_full, open_sqlite
from skills_agent.graph.threads.errors import JournalError
from skills_agent.nodes.effects import JournalEntry

logger = logging.getLogger(__name__)

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS journal (
    thread TEXT NOT NULL, call_id TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL DEFAULT '',
    skill TEXT NOT NULL DEFAULT '', digest TEXT NOT NULL, run TEXT NOT NULL, checkpoint_id TEXT NOT NULL,
    started TEXT NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL, ended TEXT, exit_code INTEGER,
    output_kind TEXT, outputs BLOB, answers INTEGER NOT NULL, settled INTEGER NOT NULL,
    PRIMARY KEY (thread, call_id)
) WITHOUT ROWID
"""
"""As the first version made it; `arguments`, `skill`, `ended` and `exit_code` are not used any more."""
_VERSION: Final = 1
"""Of the table: from 1 on, with a checksum a row."""
FIELDS: Final = (
    "thread", "call_id", "tool", "digest", "run", "checkpoint_id", "started", "attempt", "call_key", "status",
    "output_kind", "outputs", "answers", "settled",
)  # fmt: skip
"""The fields of an entry in their order, with `outputs` in two columns."""
_CHECKED: Final = ("arguments", "skill", *FIELDS)
"""What the checksum of a row covers."""
_PUT: Final = (
    f"REPLACE INTO journal ({', '.join(_CHECKED)}, checksum) "  # noqa: S608 - names of our own
    f"VALUES ({', '.join('?' * (len(_CHECKED) + 1))})"
)
_SELECT: Final = f"SELECT {', '.join(_CHECKED)}, checksum FROM journal"  # noqa: S608 - names of our own
_DELETE: Final = "DELETE FROM journal WHERE thread = :thread"

_WRITABLE: Final = "Make the folder writable, or compile the graph with a store."

_NAMESPACE: Final = ("skills-agent", "journal")
_PAGE: Final = 100
_CHECKSUM: Final = 32
"""Characters of a checksum."""


class SearchedJournal(ABC):
    """A journal that finds entries by their fields."""

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        return self._search(thread, digest=digest)

    def unsettled(self, thread: str) -> list[JournalEntry]:
        entries = self._search(thread, status="done", settled=False)
        return [entry for entry in entries if entry.status == "done"]

    @abstractmethod
    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        """Return the entries of a thread that have these fields, the oldest start first."""


class FileJournal(SearchedJournal):
    """A journal in a file, for any number of threads and of processes on one machine.

    A file that does not exist is made by the first write, also where it was removed since. Every write is on
    the disk when it returns, but for that of an entry of status `allowed`. A damaged row stands for an
    unknown outcome.
    """

    def __init__(
        self, path: Path | Callable[[], Path], make_folder: Callable[[], object] = lambda: None
    ) -> None:
        """Take the path, or what returns it, and what makes its folder at the first write."""
        self._path_of = path
        self._make_folder = make_folder
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None
        self._files: tuple[_File | None, ...] = ()
        self._examined: set[str] = set()

    @cached_property
    def _path(self) -> Path:
        return self._path_of if isinstance(self._path_of, Path) else self._path_of()

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        return next(iter(self._search(thread, call_id=call_id)), None)

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        """Return the entries of a thread with this effect, and those that are damaged, the oldest first."""
        self._examine(thread)
        entries = [*self._search(thread, digest=digest), *self._search(thread, digest="")]
        return sorted(entries, key=_age)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the removal of the entry of the call id `replacing`."""
        with self._connection() as connection:
            # What is merely allowed need not wait for the disk: the next entry brings it there.
            _execute(connection, f"PRAGMA synchronous = {'NORMAL' if entry.status == 'allowed' else 'FULL'}")
            with connection:  # commits, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                if replacing is not None:
                    replaced = {"thread": entry.thread, "call_id": replacing}
                    connection.execute(f"{_DELETE} AND call_id = :call_id", replaced)
                connection.execute(_PUT, _checked(row_of(entry)))
            if entry.status == "started":
                # Into the file itself, and the log empty: a damaged log would end before this entry.
                _execute(connection, "PRAGMA wal_checkpoint(TRUNCATE)")

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""
        self._query(_DELETE, thread=thread)

    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        conditions = " AND ".join(f"{name} = :{name}" for name in ("thread", *fields))
        rows = self._query(f"{_SELECT} WHERE {conditions}", thread=thread, **fields)
        return sorted((_read_row(row, thread) for row in rows), key=_age)

    def _examine(self, thread: str) -> None:
        """Look at all rows of a thread once: what a damaged one is of cannot be searched for."""
        if thread in self._examined:
            return
        for row in self._query(f"{_SELECT} WHERE thread = :thread", thread=thread):
            entry = _read_row(row, thread)
            if entry.status == "unconfirmed" and entry.digest:
                logger.warning("journal entry is damaged", extra={"of_thread": thread})
                self.put(replace(entry, digest=""))
        self._examined.add(thread)

    def _query(self, query: str, **parameters: Any) -> list[Any]:
        if not self._is_there():
            return []
        with self._connection() as connection:
            return connection.execute(query, parameters).fetchall()

    def _is_there(self) -> bool:
        try:
            self._path.stat()
        except FileNotFoundError:
            return False
        except OSError:
            return True  # The connection says why it cannot be used.
        return True

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                connection = self._connected()
                yield connection
                if None in self._files:  # The log is made by the first transaction.
                    self._files = _identities(self._path)
        except (OSError, sqlite3.Error) as error:
            if not _is_damage(error):
                advice = f"{ROOM} What ran by then is asked about." if is_full(error) else _WRITABLE
                raise JournalError(
                    f"Cannot keep the journal in {self._path}: {error}. Nothing is run that it could not "
                    f"record. {advice}"
                ) from error
            raise JournalError(
                f"The journal {self._path} is damaged ({error}). Nothing is run that it could not record. "
                f"Move it away ({_move(self._path)}): what it knew of calls that were cut off is asked about."
            ) from error

    def _connected(self) -> sqlite3.Connection:
        """Return a connection to the file that is there now: one that was removed is written for nobody."""
        if self._open is not None and self._is_replaced():
            logger.warning("journal was removed or replaced", extra={"path": str(self._path)})
            self._open.close()
            self._open, self._examined = None, set()
        if self._open is None:
            self._make_folder()
            connection = open_sqlite(self._path, isolation=None)
            weakref.finalize(self, connection.close)
            # What is no UTF-8 is no error of the whole search, but a damaged row.
            connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
            _make_table(connection)
            self._open, self._files = connection, _identities(self._path)
        return self._open

    def _is_replaced(self) -> bool:
        now = _identities(self._path)
        return any(old not in {None, new} for old, new in zip(self._files, now, strict=True))


class _File(NamedTuple):
    device: int
    inode: int


def _identities(path: Path) -> tuple[_File | None, ...]:
    """Return which files the database and its log are; None for one that is not there."""
    found: list[_File | None] = []
    for each in (path, path.with_name(f"{path.name}-wal")):
        try:
            facts = each.stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append(_File(facts.st_dev, facts.st_ino))
    return tuple(found)


def _execute(connection: sqlite3.Connection, statement: str) -> None:
    connection.execute(statement).fetchall()


def _make_table(connection: sqlite3.Connection) -> None:
    """Make the table, or give the rows of an older one their checksums."""
    if (version := _version(connection)) > _VERSION:
        raise JournalError("The journal was written by a newer version of skills-agent: use that one.")
    if version == _VERSION:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if _version(connection) == _VERSION:
            return
        connection.execute(_TABLE)
        connection.execute("ALTER TABLE journal ADD COLUMN call_key TEXT NOT NULL DEFAULT ''")
        connection.execute("ALTER TABLE journal ADD COLUMN checksum TEXT NOT NULL DEFAULT ''")
        for *row, _ in connection.execute(_SELECT).fetchall():
            connection.execute(_PUT, _checked(row[2:]))
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _checked(row: Sequence[Any]) -> list[Any]:
    """Return the values of `_CHECKED` for a row, and its checksum."""
    values = ["", "", *row]
    return [*values, _checksum(values)]


def _checksum(values: Sequence[Any]) -> str:
    plain = [int(value) if isinstance(value, bool) else value for value in values]
    return hashlib.sha256(repr(plain).encode(errors="surrogatepass")).hexdigest()[:_CHECKSUM]


def _read_row(row: Sequence[Any], thread: str) -> JournalEntry:
    """Return the entry in a row of `_SELECT`; for a damaged one, what stands for it."""
    *values, checksum = row
    _, _, _, call_id, _, digest, *_ = values
    if _checksum(values) != checksum:
        return JournalEntry.unconfirmed(thread, str(call_id), str(digest) or "damaged")
    return entry_of(values[2:])


def _age(entry: JournalEntry) -> tuple[str, str]:
    return entry.started, entry.call_id


def _is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    # SQLITE_ERROR: a table or a column is missing, or is there twice; the statements are our own.
    return code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or (
        code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_IOERR_SHORT_READ}
    )


def _move(path: Path) -> str:
    return shlex.join(["mv", str(path), f"{path}.damaged"])


def row_of(entry: JournalEntry) -> list[Any]:
    """Return the values of `FIELDS` of an entry."""
    *fields, outputs, answers, settled = astuple(entry)
    return [*fields, *(outputs or (None, None)), answers, settled]


def entry_of(row: Sequence[Any]) -> JournalEntry:
    """Return the entry with these values of `FIELDS`."""
    *fields, kind, output, answers, settled = row
    values = (*fields, (kind, output) if kind else None, answers, bool(settled))
    return JournalEntry(**dict(zip(JournalEntry.__slots__, values, strict=True)))


class StoreJournal(SearchedJournal):
    """A journal in a store: as durable, and reached from as many machines, as the store is.

    An entry has a checksum, and a damaged one stands for an unknown outcome.
    """

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        item = self._store.get(_namespace(thread), _name(call_id), refresh_ttl=False)
        return None if item is None else self._read(item, thread, call_id)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one batch with the removal of the entry of the call id `replacing`."""
        namespace, value = _namespace(entry.thread), msgspec.to_builtins(entry)
        value["checksum"] = _checksum(row_of(entry))
        writes = [PutOp(namespace, _name(entry.call_id), value, index=False, ttl=None)]
        if replacing is not None and replacing != entry.call_id:
            writes.append(PutOp(namespace, _name(replacing), None))
        self._store.batch(writes)

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""
        namespace = _namespace(thread)
        if items := self._items(thread):
            self._store.batch([PutOp(namespace, item.key, None) for item in items])

    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        entries = [self._read(item, thread) for item in self._items(thread, **fields)]
        return sorted(entries, key=lambda entry: (entry.started, entry.call_id))

    def _items(self, thread: str, **fields: Any) -> list[Item]:
        items: list[Item] = []
        while True:
            page = self._store.search(
                _namespace(thread), filter=fields, limit=_PAGE, offset=len(items), refresh_ttl=False
            )
            items += page
            if len(page) < _PAGE:
                return items

    def _read(self, item: Item, thread: str, call_id: str | None = None) -> JournalEntry:
        named, digest = (str(item.value.get(name)) for name in ("call_id", "digest"))
        with suppress(msgspec.ValidationError):
            entry = msgspec.convert(item.value, JournalEntry)
            is_whole = item.value.get("checksum") == _checksum(row_of(entry))
            if is_whole and entry.thread == thread and item.key == _name(named):
                return entry
        logger.warning("journal entry is not confirmed", extra={"of_thread": thread, "key": item.key})
        return JournalEntry.unconfirmed(thread, call_id or named, digest)


def _namespace(thread: str) -> tuple[str, ...]:
    return (*_NAMESPACE, _name(thread))


def _name(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
