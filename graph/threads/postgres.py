"""Threads in a PostgreSQL database. Its packages are an extra of the project."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skills_agent.graph.threads.dsn import is_dsn, without_password
from skills_agent.graph.threads.errors import DatabaseError

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore
    from psycopg import Connection
    from psycopg.rows import DictRow

CONNECT_SECONDS = 10
RETRY_SECONDS = 0.05
SETUP_SECONDS = 60
"""Until a process that waits for another one to make the tables gives up."""
MAX_CONNECTIONS = 4

_SETUP_LOCK = 0x736B_696C_6C73
"""Key of the advisory lock under which the tables are made: "skills"."""


@contextmanager
def open_postgres(dsn: str) -> Iterator["PostgresSaver"]:
    """Open the threads of a database, making the tables where there are none.

    Raises DatabaseError, which never holds the password.
    """
    if not is_dsn(dsn):
        raise DatabaseError(
            "The setting checkpointer is no connection string: postgresql://user@host:5432/database, "
            "with @ : / ? # in user and password percent-encoded."
        )
    try:
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import DictRow, dict_row
        from psycopg_pool import ConnectionPool
    except ImportError as error:
        raise DatabaseError(
            f"PostgreSQL needs packages that are missing ({error}): pip install 'skills-agent[postgres]'"
        ) from error
    shown = without_password(dsn)
    # The pool tells each failed attempt to the log; the command tells the end of it, once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    arguments: dict[str, Any] = {
        "autocommit": True,
        "prepare_threshold": 0,
        "connect_timeout": CONNECT_SECONDS,
    }
    try:
        # First alone: a pool tells why it cannot connect to its log, and not to its user.
        with psycopg.Connection[DictRow].connect(dsn, row_factory=dict_row, **arguments) as connection:
            _set_up(connection)
        pool = ConnectionPool[psycopg.Connection[DictRow]](
            dsn,
            kwargs={**arguments, "row_factory": dict_row},
            min_size=1,
            max_size=MAX_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            # A server that was restarted in between costs a new connection, not the run.
            check=ConnectionPool.check_connection,
            open=False,
        )
        with pool:
            yield PostgresSaver(pool)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise DatabaseError(f"Cannot keep threads in {shown}: {_said(error, dsn)}") from error


def rows_of(saver: "PostgresSaver", query: str) -> list[Mapping[str, Any]]:
    """Return what a query without parameters finds."""
    from psycopg_pool import ConnectionPool

    assert isinstance(saver.conn, ConnectionPool)  # noqa: S101 - open_postgres gives no other
    with saver.conn.connection() as connection:
        return [*connection.execute(query.encode()).fetchall()]


def store_beside(saver: "PostgresSaver") -> "PostgresStore":
    """Return the store of the same database: there the journal is for every machine that runs its threads."""
    from langgraph.store.postgres import PostgresStore

    return PostgresStore(saver.conn)


def _set_up(connection: "Connection[DictRow]") -> None:
    """Make the tables, or bring them up to date, one process at a time.

    LangGraph's own setup() does not expect company: two first ones fail on the same table.
    """
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore

    end = time.monotonic() + SETUP_SECONDS
    while not _is_current(connection):
        # Not pg_advisory_lock: who waits in it holds a snapshot, for which the winner's
        # CREATE INDEX CONCURRENTLY would wait in turn.
        if _locked(connection):
            try:
                PostgresSaver(connection).setup()
                PostgresStore(connection).setup()
            finally:
                connection.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK,))
        elif time.monotonic() > end:
            raise DatabaseError("Another process has been making the tables of the database for a minute.")
        else:
            time.sleep(RETRY_SECONDS)


def _is_current(connection: "Connection[DictRow]") -> bool:
    """Tell whether the tables are there; an account that may not make any can then use them."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.store.postgres import PostgresStore

    return _has(connection, "checkpoint_migrations", len(PostgresSaver.MIGRATIONS)) and _has(
        connection, "store_migrations", len(PostgresStore.MIGRATIONS)
    )


def _has(connection: "Connection[DictRow]", table: str, migrations: int) -> bool:
    found = connection.execute("SELECT to_regclass(%s) AS it", (table,)).fetchone()
    if found is None or found["it"] is None:
        return False
    newest = connection.execute(f"SELECT max(v) AS v FROM {table}".encode()).fetchone()  # noqa: S608 - one of two
    return bool(newest and newest["v"] is not None and newest["v"] >= migrations - 1)


def _locked(connection: "Connection[DictRow]") -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (_SETUP_LOCK,)).fetchone()
    return bool(row and row["mine"])


def _said(error: Exception, dsn: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    text = " ".join(str(error).split())
    for name in ("password", "sslpassword"):
        if secret := conninfo_to_dict(dsn).get(name):
            text = text.replace(str(secret), "***")
    hint = " A password can come from PGPASSWORD or ~/.pgpass." if "password" in text else ""
    return f"{text}{hint}"
