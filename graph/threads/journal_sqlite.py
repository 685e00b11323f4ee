"""The journal in an SQLite file."""

import json
import sqlite3
import time
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final

from skills_agent.graph.threads.errors import JournalError
from skills_agent.graph.threads.private_files import make_private
from skills_agent.nodes.effects import JournalEntry

BUSY_SECONDS: Final = 30
"""Until a writer that waits for another process gives up."""
_RETRY_SECONDS: Final = 0.05

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS journal (
    thread TEXT NOT NULL, call_id TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
    skill TEXT NOT NULL, digest TEXT NOT NULL, run TEXT NOT NULL, checkpoint_id TEXT NOT NULL,
    started TEXT NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL, ended TEXT, exit_code INTEGER,
    output_kind TEXT, outputs BLOB, answers INTEGER NOT NULL, settled INTEGER NOT NULL,
    PRIMARY KEY (thread, call_id)
) WITHOUT ROWID
"""
_SELECT: Final = "SELECT * FROM journal WHERE thread = ? "
_PUT: Final = "REPLACE INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET: Final = (
    "DELETE FROM journal WHERE thread = ? AND status = 'done' AND settled "
    "AND checkpoint_id NOT IN (SELECT value FROM json_each(?))"
)
_IN_ORDER: Final = "ORDER BY started, call_id"


class FileJournal:
    """A journal in a file, for any number of threads and of processes on one machine.

    One connection, used by one thread at a time; it is opened when it is first needed. A file that does
    not exist holds no entries, and is made by the first write. Every write is on the disk when it
    returns (`synchronous=FULL`). `None` keeps the journal in memory.
    """

    def __init__(self, place: Path | None) -> None:
        """Take the place of the file."""
        self._place = place
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        return next(iter(self._read(f"{_SELECT} AND call_id = ?", thread, call_id)), None)

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        """Return the entries of a thread with this effect, the oldest start first."""
        return self._read(f"{_SELECT} AND digest = ? {_IN_ORDER}", thread, digest)

    def unsettled(self, thread: str) -> list[JournalEntry]:
        """Return the entries of a thread that are done and not settled."""
        return self._read(f"{_SELECT} AND status = 'done' AND NOT settled {_IN_ORDER}", thread)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the removal of the entry of the call id `replacing`."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if replacing is not None:
                    connection.execute(
                        "DELETE FROM journal WHERE thread = ? AND call_id = ?", (entry.thread, replacing)
                    )
                connection.execute(_PUT, _row(entry))
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def forget(self, thread: str, *, kept: Collection[str] | None = None) -> None:
        """Remove the entries of a thread; with `kept`, those that no run of these checkpoints can find."""
        if not self._is_made():
            return
        with self._connection() as connection:
            if kept is None:
                connection.execute("DELETE FROM journal WHERE thread = ?", (thread,))
            else:
                connection.execute(_FORGET, (thread, json.dumps(list(kept))))

    def _is_made(self) -> bool:
        return self._open is not None or (self._place is not None and self._place.exists())

    def _read(self, query: str, *parameters: str) -> list[JournalEntry]:
        if not self._is_made():
            return []
        with self._connection() as connection:
            return [_entry(row) for row in connection.execute(query, parameters)]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._open is None:
                    self._open = _connect(self._place)
                    weakref.finalize(self, self._open.close)
                yield self._open
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                f"Cannot keep the journal in {self._place}: {error}. Nothing is run that it could not "
                "record. Make the folder writable, or compile the graph with a store."
            ) from error


def _connect(place: Path | None) -> sqlite3.Connection:
    if place is not None:
        make_private(place)
    connection = sqlite3.connect(
        place or ":memory:", timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA synchronous = FULL")
        _write_ahead(connection)
        connection.execute(_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let others read while one writes, and commit with one fsync.

    Switching it on needs the file for itself, and SQLite answers "database is locked" at once, whatever
    the timeout: of several first writers at a time, all but one try again.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _row(entry: JournalEntry) -> tuple[Any, ...]:
    kind, outputs = entry.outputs or (None, None)
    return (
        entry.thread,
        entry.call_id,
        entry.tool,
        entry.arguments,
        entry.skill,
        entry.digest,
        entry.run,
        entry.checkpoint,
        entry.started,
        entry.attempt,
        entry.status,
        entry.ended,
        entry.exit_code,
        kind,
        outputs,
        entry.answers,
        int(entry.settled),
    )


def _entry(row: sqlite3.Row) -> JournalEntry:
    fields = dict(row)
    kind, outputs = fields.pop("output_kind"), fields.pop("outputs")
    fields["checkpoint"] = fields.pop("checkpoint_id")
    fields["settled"] = bool(fields["settled"])
    return JournalEntry(**fields, outputs=None if kind is None else (kind, outputs))
