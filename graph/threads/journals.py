"""Where the journal of effects is kept: in an SQLite file, or in LangGraph's store."""

import hashlib
import logging
import sqlite3
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec
from langgraph.store.base import BaseStore, Item, PutOp

from skills_agent.graph.private_files import open_sqlite
from skills_agent.graph.threads.errors import JournalError
from skills_agent.nodes.effects import JournalEntry
from skills_agent.skills.policy.codes import Codes

logger = logging.getLogger(__name__)

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS journal (
    thread TEXT NOT NULL, call_id TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
    skill TEXT NOT NULL, digest TEXT NOT NULL, run TEXT NOT NULL, checkpoint_id TEXT NOT NULL,
    started TEXT NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL, ended TEXT, exit_code INTEGER,
    output_kind TEXT, outputs BLOB, answers INTEGER NOT NULL, settled INTEGER NOT NULL,
    PRIMARY KEY (thread, call_id)
) WITHOUT ROWID
"""
# What stays empty was written by older versions and read by nobody.
_PUT: Final = "REPLACE INTO journal VALUES (?, ?, ?, '', '', ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?, ?)"
FIELDS: Final = (
    "thread", "call_id", "tool", "digest", "run", "checkpoint_id", "started", "attempt", "status",
    "output_kind", "outputs", "answers", "settled",
)  # fmt: skip
"""The fields of an entry in their order, with `outputs` in two columns."""
_SELECT: Final = f"SELECT {', '.join(FIELDS)} FROM journal"  # noqa: S608 - names of our own
_DELETE: Final = "DELETE FROM journal WHERE thread = :thread"

_NAMESPACE: Final = ("skills-agent", "journal")
_PAGE: Final = 100


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

    A file that does not exist is made by the first write. Every write is on the disk when it returns.
    """

    def __init__(
        self, path: Path | Callable[[], Path], make_folder: Callable[[], object] = lambda: None
    ) -> None:
        """Take the path, or what returns it, and what makes its folder at the first write."""
        self._path_of = path
        self._make_folder = make_folder
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None

    @cached_property
    def _path(self) -> Path:
        return self._path_of if isinstance(self._path_of, Path) else self._path_of()

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        return next(iter(self._search(thread, call_id=call_id)), None)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the removal of the entry of the call id `replacing`."""
        with self._connection() as connection, connection:  # commits, or rolls back
            connection.execute("BEGIN IMMEDIATE")
            if replacing is not None:
                replaced = {"thread": entry.thread, "call_id": replacing}
                connection.execute(f"{_DELETE} AND call_id = :call_id", replaced)
            connection.execute(_PUT, row_of(entry))

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""
        self._execute(_DELETE, thread=thread)

    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        conditions = " AND ".join(f"{name} = :{name}" for name in ("thread", *fields))
        query = f"{_SELECT} WHERE {conditions} ORDER BY started, call_id"
        return [entry_of(row) for row in self._execute(query, thread=thread, **fields)]

    def _execute(self, query: str, **parameters: Any) -> list[Any]:
        if self._open is None and not self._path.exists():
            return []
        with self._connection() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._open is None:
                    self._make_folder()
                    connection = open_sqlite(self._path, isolation=None)
                    weakref.finalize(self, connection.close)
                    connection.execute(_TABLE)
                    self._open = connection
                yield self._open
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                f"Cannot keep the journal in {self._path}: {error}. Nothing is run that it could not "
                "record. Make the folder writable, or compile the graph with a store."
            ) from error


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

    Clients of a server may write its store. So an entry counts with a code under the operator's key, and any
    other one stands for an unknown outcome; that an entry was removed cannot be seen.
    """

    def __init__(self, store: BaseStore, codes: Callable[[], Codes]) -> None:
        self._store = store
        self._codes = codes

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        item = self._store.get(_namespace(thread), _name(call_id), refresh_ttl=False)
        return None if item is None else self._read(item, thread, call_id)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one batch with the removal of the entry of the call id `replacing`."""
        namespace, value = _namespace(entry.thread), msgspec.to_builtins(entry)
        value["code"] = self._codes().code("journal", entry.thread, value)
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
        facts = {name: value for name, value in item.value.items() if name != "code"}
        named = str(facts.get("call_id"))
        is_own = self._codes().confirms(item.value.get("code"), "journal", thread, facts)
        if is_own and item.key == _name(named):
            return msgspec.convert(facts, JournalEntry)
        logger.warning("journal entry is not confirmed", extra={"of_thread": thread, "key": item.key})
        return JournalEntry.unconfirmed(thread, call_id or named, str(facts.get("digest")))


def _namespace(thread: str) -> tuple[str, ...]:
    return (*_NAMESPACE, _name(thread))


def _name(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
