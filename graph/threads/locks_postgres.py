"""Locks of threads that PostgreSQL keeps."""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Self

from langgraph.checkpoint.base import BaseCheckpointSaver
from psycopg import Connection, OperationalError
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from skills_agent.graph.threads.errors import ThreadBusyError
from skills_agent.graph.threads.locks import Release, ThreadKey


class PostgresLocks:
    """Advisory locks of the database that keeps the threads, for processes on any machine.

    All of a process are of one session, on a connection of its own, which is open while one is held: the
    server gives them back when it breaks. (A connection pooler that shares sessions cannot do this.)
    """

    def __init__(self, connect: Callable[[], Connection[Any]]) -> None:
        """Take what opens a connection."""
        self._connect = connect
        self._lock = Lock()
        self._open: Connection[Any] | None = None
        self._count = 0

    @classmethod
    def beside(cls, saver: BaseCheckpointSaver[Any]) -> Self:
        """Return the locks for threads of a PostgresSaver or an AsyncPostgresSaver.

        Raises TypeError for a saver whose connection does not say how to make another one.
        """
        held = saver.conn  # type: ignore[attr-defined]  # the classes of that package have it
        if isinstance(held, ConnectionPool | AsyncConnectionPool):
            if not isinstance(held.conninfo, str):
                raise TypeError("The pool's connection string must be a text: threads are locked beside it.")
            conninfo = held.conninfo
        else:
            conninfo = make_conninfo(**{**held.info.get_parameters(), "password": held.info.password})
        return cls(lambda: Connection.connect(conninfo, autocommit=True))

    def take(self, key: ThreadKey) -> Release:
        """Take the lock of a thread; raises ThreadBusyError, and psycopg.Error where there is no server."""
        number = int.from_bytes(key.digest[:8], "big", signed=True)
        with self._lock:
            if self._open is None:
                self._open = self._connect()
            try:
                row = self._open.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone()
                if row is None or not row[0]:
                    raise ThreadBusyError(key.thread)
                self._count += 1
            finally:
                self._close_if_unused()
        return lambda: self._release(number)

    def _release(self, number: int) -> None:
        with self._lock:
            self._count -= 1
            # A connection that broke has given back all it held. One that is closed does so by and by: too
            # late for a next turn that begins at once.
            with suppress(OperationalError):
                if self._open is not None:
                    self._open.execute("SELECT pg_advisory_unlock(%s)", [number])
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._open is not None and (not self._count or self._open.closed):
            self._open.close()
            self._open = None
