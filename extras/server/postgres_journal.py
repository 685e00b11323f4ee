"""The journal of effects in PostgreSQL: in a table of its own, which no client of a server reaches."""

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from skills_agent.graph.threads.errors import JournalError
from skills_agent.graph.threads.journals import FIELDS, SearchedJournal, entry_of, row_of
from skills_agent.nodes.effects import JournalEntry

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

Guard = Callable[["Cursor[Any]"], object]

_TABLE: Final = "skills_agent_journal"
_CREATE: Final = f"""
CREATE TABLE {_TABLE} (
    thread TEXT NOT NULL, call_id TEXT NOT NULL, tool TEXT NOT NULL, digest TEXT NOT NULL, run TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL, started TEXT NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL,
    output_kind TEXT, outputs BYTEA, answers INTEGER NOT NULL, settled BOOLEAN NOT NULL,
    call_key TEXT NOT NULL,
    PRIMARY KEY (thread, call_id)
)
"""
_NAMES: Final = ", ".join(FIELDS)
_PUT: Final = (
    f"INSERT INTO {_TABLE} ({_NAMES}) VALUES ({', '.join(['%s'] * len(FIELDS))}) "  # noqa: S608 - names of our own
    f"ON CONFLICT (thread, call_id) DO UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in FIELDS)}"
)
_SELECT: Final = f"SELECT {_NAMES} FROM {_TABLE}"  # noqa: S608 - names of our own
_DELETE: Final = f"DELETE FROM {_TABLE} WHERE thread = %s"  # noqa: S608 - names of our own
_SETUP_LOCK: Final = 0x736B_696C_6C73
"""Key of the advisory lock under which tables are made: "skills"."""
_CONNECT_SECONDS: Final = 10
_RETRY_SECONDS: Final = 0.05

logger = logging.getLogger(__name__)


class PostgresJournal(SearchedJournal):
    """A journal in a database, for any number of machines.

    It has one connection, which is opened when it is needed, and again after a restart of the server.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._lock = Lock()
        self._open: Connection[Any] | None = None

    def put(
        self, entry: JournalEntry, *, replacing: str | None = None, guard: Guard = lambda _: None
    ) -> None:
        """Write an entry, in one step with the removal of the entry of the call id `replacing`.

        `guard` looks in the same transaction whether it may be written.
        """
        remove = (f"{_DELETE} AND call_id = %s", [entry.thread, replacing])
        self._execute(*([remove] if replacing is not None else []), (_PUT, row_of(entry)), guard=guard)

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""
        self._execute((_DELETE, [thread]))

    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        facts = {"thread": thread, **fields}
        conditions = " AND ".join(f"{name} = %s" for name in facts)
        rows = self._execute((f"{_SELECT} WHERE {conditions}", [*facts.values()]))
        return sorted(map(entry_of, rows), key=lambda entry: (entry.started, entry.call_id))

    def _execute(self, *statements: tuple[str, list[Any]], guard: Guard = lambda _: None) -> list[Any]:
        """Execute statements in one transaction; once more where the connection turns out to be broken."""
        from psycopg import Error, OperationalError

        try:
            with self._lock:
                try:
                    return self._transact(statements, guard)
                except OperationalError:
                    if self._open is None or not self._open.broken:
                        raise
                    return self._transact(statements, guard)
        except Error as error:
            cause = " ".join(str(error).split())
            raise JournalError(
                f"Cannot keep the journal in the database: {cause}. Nothing is run that it could not record."
            ) from error

    def _transact(self, statements: Sequence[tuple[str, list[Any]]], guard: Guard) -> list[Any]:
        from psycopg import Connection

        if self._open is None or self._open.closed:
            arguments: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
            connection = Connection[Any].connect(self.dsn, connect_timeout=_CONNECT_SECONDS, **arguments)
            weakref.finalize(self, connection.close)
            make_table(connection, _TABLE, _CREATE)
            self._open = connection
        with self._open.transaction(), self._open.cursor() as cursor:
            guard(cursor)
            for query, values in statements:
                cursor.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []


def is_usable() -> bool:
    """Return whether PostgreSQL can be used, with a warning in the log where its package is missing."""
    if not find_spec("psycopg"):
        logger.warning(
            "The journal is in the store, not in the database: pip install 'skills-agent[postgres]'"
        )
        return False
    return True


def make_once(
    connection: "Connection[Any]",
    has: "Callable[[Connection[Any]], bool]",
    make: "Callable[[Connection[Any]], object]",
) -> None:
    """Make tables, one process at a time.

    LangGraph's setup() fails where two processes call it at the same time: both make the same table.
    """
    # An account that may not make tables can use those that are there.
    while not has(connection):
        # Not pg_advisory_lock: a process that waits in it holds a snapshot, for which the winner's
        # CREATE INDEX CONCURRENTLY would wait in turn.
        row = connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (_SETUP_LOCK,)).fetchone()
        if row and (row["mine"] if isinstance(row, dict) else row[0]):
            try:
                make(connection)
            finally:
                connection.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK,))
        else:
            time.sleep(_RETRY_SECONDS)


def make_table(connection: "Connection[Any]", name: str, create: str) -> None:
    """Make a table of ours where it is missing."""

    def is_there(connection: "Connection[Any]") -> bool:
        row = connection.execute("SELECT to_regclass(%s)", [name]).fetchone()
        return row is not None and row[0] is not None

    make_once(connection, is_there, lambda made: made.execute(create.encode()))
