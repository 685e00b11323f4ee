"""Locks of threads in the database that keeps them."""

import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from skills_agent.graph.threads.errors import LostLockError, ThreadBusyError
from skills_agent.graph.threads.locks import Release, ThreadKey
from skills_agent.nodes.effects import Journal, JournalEntry
from skills_agent.server.postgres_journal import PostgresJournal, make_table

if TYPE_CHECKING:
    from psycopg import Connection, Cursor


def conninfo_of(saver: BaseCheckpointSaver[Any]) -> str:
    """Return how the connection of a PostgresSaver or an AsyncPostgresSaver was made, password included.

    Raises TypeError for one that does not say so.
    """
    from psycopg.conninfo import make_conninfo

    held = saver.conn  # type: ignore[attr-defined]  # every class of that package has it
    if not hasattr(held, "conninfo"):  # no pool
        return str(make_conninfo(**held.info.get_parameters(), password=held.info.password))
    if not isinstance(held.conninfo, str):
        raise TypeError("The pool's connection string must be a text: locks and journal are beside it.")
    return held.conninfo


_LOCK_TABLE: Final = "skills_agent_locks"
_CREATE: Final = f"CREATE TABLE {_LOCK_TABLE} (number BIGINT PRIMARY KEY, token BIGINT NOT NULL)"
_TAKE: Final = (
    f"INSERT INTO {_LOCK_TABLE} VALUES (%s, %s) "  # noqa: S608 - names of our own
    "ON CONFLICT (number) DO UPDATE SET token = EXCLUDED.token"
)
_GIVE_BACK: Final = f"DELETE FROM {_LOCK_TABLE} WHERE number = %s AND token = %s"  # noqa: S608
# In one transaction with a write: nobody takes the lock before that is there for all to see.
_CHECK: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %s "  # noqa: S608
    "AND classid::bigint = %s AND objid::bigint = %s AND objsubid = 1) "
    f"FROM {_LOCK_TABLE} WHERE number = %s AND token = %s FOR SHARE"
)


class PostgresLocks:
    """Advisory locks of the database that keeps the threads, for processes on any machine.

    One connection of its own holds them all while there are any: the server unlocks them when it breaks. So
    each taking has a fencing token, kept in a table while the lock is held: who takes a lock that was lost
    replaces it.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        """Take a PostgresSaver or an AsyncPostgresSaver, and open no connection yet.

        Raises TypeError for a saver whose connection does not say how to make another one.
        """
        self._conninfo = conninfo_of(saver)
        self._lock = Lock()
        self._connection: Connection[Any] | None = None
        self._count = 0

    def take(self, key: ThreadKey) -> Release:
        """Lock a thread; raises ThreadBusyError, and psycopg.Error where the server cannot be reached."""
        from psycopg import OperationalError

        with self._lock:
            try:
                try:
                    lock = self._take(key)
                except OperationalError:
                    if self._connection is None or not self._connection.closed:
                        raise
                    self._connection = None  # It broke, and the locks that it held are lost.
                    lock = self._take(key)
                self._count += 1
            finally:
                self._close_if_unused()
        return lock

    def _take(self, key: ThreadKey) -> "PostgresLock":
        from psycopg import Connection

        if self._connection is None:
            self._connection = Connection.connect(self._conninfo, autocommit=True)
            # A crash of the server loses tokens together with all the locks; each is another number.
            self._connection.execute("SET synchronous_commit = off")
            make_table(self._connection, _LOCK_TABLE, _CREATE)
        connection, number = self._connection, int.from_bytes(key.digest[:8], "big", signed=True)
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone()
        if row is None or not row[0]:
            raise ThreadBusyError(key.thread)
        token = secrets.randbits(62)
        connection.execute(_TAKE.encode(), [number, token])
        return PostgresLock(self, key.thread, number, token, connection, connection.info.backend_pid)

    def release(self, lock: "PostgresLock") -> None:
        """Unlock."""
        from psycopg import OperationalError

        with self._lock:
            self._count -= 1
            # A broken connection has unlocked everything. A closed one unlocks after a while, which is too
            # late for a next turn that begins at once.
            with suppress(OperationalError):
                if self._connection is lock.connection:
                    self._connection.execute(_GIVE_BACK.encode(), [lock.number, lock.token])
                    self._connection.execute("SELECT pg_advisory_unlock(%s)", [lock.number])
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._connection is not None and (not self._count or self._connection.closed):
            self._connection.close()
            self._connection = None


@dataclass(frozen=True)
class PostgresLock:
    """One taking of a lock."""

    locks: PostgresLocks
    thread: str
    number: int
    token: int
    connection: "Connection[Any]"
    pid: int

    def __call__(self) -> None:
        """Unlock."""
        self.locks.release(self)

    def check(self, *, begins: bool) -> None:
        """Raise LostLockError where the lock is lost."""
        from psycopg import OperationalError

        try:
            with self.connection.cursor() as cursor:
                self.check_within(cursor, begins=begins)
        except OperationalError as error:
            raise LostLockError(self.thread, "the connection that held it broke") from error

    def put_into(self, journal: Journal, entry: JournalEntry, *, replacing: str | None, begins: bool) -> bool:
        """Write an entry, in one step with the check; return False for a journal that is elsewhere."""
        if not isinstance(journal, PostgresJournal):
            return False
        journal.put(entry, replacing=replacing, guard=partial(self.check_within, begins=begins))
        return True

    def check_within(self, cursor: "Cursor[Any]", *, begins: bool) -> None:
        """Check it in the transaction of a write."""
        high, low = self.number >> 32 & 0xFFFFFFFF, self.number & 0xFFFFFFFF
        row = cursor.execute(_CHECK.encode(), [self.pid, high, low, self.number, self.token]).fetchone()
        if row is None:
            raise LostLockError(self.thread, "somebody else has taken it since")
        if begins and not row[0]:
            raise LostLockError(self.thread, "the connection that held it broke")
