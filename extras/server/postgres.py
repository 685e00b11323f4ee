"""Threads of the command line in PostgreSQL, and what the core asks it for: the names of `Postgres`."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from skills_agent.graph.langgraph_inside import has_current_tables
from skills_agent.graph.serialisation import strict
from skills_agent.graph.threads.errors import DatabaseError
from skills_agent.server.postgres_journal import PostgresJournal, is_usable, make_once
from skills_agent.server.postgres_locks import PostgresLocks, conninfo_of

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection
    from psycopg.rows import DictRow

__all__ = ["conninfo_of", "is_usable", "journal", "locks", "open_postgres", "without_password"]

journal = PostgresJournal
locks = PostgresLocks
_TAKES: Final = (
    "server_database, or --checkpointer, takes postgresql://user@host:5432/database, with @ : / ? # in user "
    "and password percent-encoded. Without it, threads are kept in a file of this user."
)
_CONNECT_SECONDS: Final = 10
_MAX_CONNECTIONS: Final = 4
_SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})


def without_password(dsn: str) -> str:
    """Return a connection string as it may be shown; nothing of one whose password is not certain.

    It is shown as it was written where libpq still reads it as the same without its secrets, else as libpq's
    keywords and values. Without psycopg nothing is shown.
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        return ""
    bare = re.sub(r"(?<=//)([^:@/?#]*):[^@]*@", r"\1@", dsn).replace("//@", "//")
    bare = re.sub(rf"(?<=[?&])({'|'.join(_SECRETS)})=[^&]*&?", "", bare).rstrip("?&")
    try:
        fields = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if name not in _SECRETS}
        is_same = conninfo_to_dict(bare) == fields
    except ProgrammingError:
        return ""
    # libpq ends the password at the first @, and takes the rest of it for a host or a database.
    if any("@" in value for name, value in fields.items() if name != "user"):
        return ""
    return bare if is_same else make_conninfo(**fields)


@contextmanager
def open_postgres(dsn: str) -> Iterator["PostgresSaver"]:
    """Open threads, making the tables where there are none. Raises DatabaseError."""
    if re.match(r"(?!postgres(ql)?:)[^=]*://", dsn):  # Nothing that could be installed opens it.
        raise DatabaseError(_TAKES)
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
    if not shown:
        raise DatabaseError(_TAKES)
    # The pool logs each failed attempt; the error below says it once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    arguments: dict[str, Any] = {
        "autocommit": True,
        "prepare_threshold": 0,
        "connect_timeout": _CONNECT_SECONDS,
    }
    try:
        # One connection first: a pool logs why it cannot connect, and its caller learns only that it cannot.
        with psycopg.Connection[DictRow].connect(dsn, row_factory=dict_row, **arguments) as connection:
            _make_tables(connection)
        pool = ConnectionPool[psycopg.Connection[DictRow]](
            dsn,
            kwargs={**arguments, "row_factory": dict_row},
            min_size=1,
            max_size=_MAX_CONNECTIONS,
            timeout=_CONNECT_SECONDS,
            # A server that was restarted in between costs a new connection, not the invocation.
            check=ConnectionPool.check_connection,
            open=False,
        )
        with pool:
            yield PostgresSaver(pool, serde=strict(JsonPlusSerializer(), {}))
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise DatabaseError(f"Cannot keep threads in {shown}: {_cause(error, dsn)}") from error


def _make_tables(connection: "Connection[DictRow]") -> None:
    from langgraph.checkpoint.postgres import PostgresSaver

    make_once(connection, has_current_tables, lambda opened: PostgresSaver(opened).setup())


def _cause(error: Exception, dsn: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    text = " ".join(str(error).split())
    for name in _SECRETS:
        if secret := conninfo_to_dict(dsn).get(name):
            text = text.replace(str(secret), "***")
    hint = " A password can come from PGPASSWORD or ~/.pgpass." if "password" in text else ""
    return f"{text}{hint}"
