"""Locks in PostgreSQL, held against the contract of locks; and what is theirs alone."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from skills_agent.graph.threads.errors import LostLockError
from skills_agent.graph.threads.locks import ThreadKey
from skills_agent.server.postgres_locks import PostgresLocks
from tests.contracts.lock_contract import *  # noqa: F403 - the tests
from tests.contracts.lock_contract import KEY, Kind

PROGRAM = """
import sys
from langgraph.checkpoint.postgres import PostgresSaver
from skills_agent.graph.threads.locks import ThreadKey
from skills_agent.server.postgres_locks import PostgresLocks
entered = PostgresSaver.from_conn_string(sys.argv[1])
locks = PostgresLocks(entered.__enter__())
"""


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """Yield locks in a database; they are lost as a pooler or an administrator ends their connection."""
    dsn = request.getfixturevalue("postgres").new_database()

    def lose(held: Any) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [held.pid])

    with PostgresSaver.from_conn_string(dsn) as saver:
        yield Kind(PROGRAM, dsn, lambda: PostgresLocks(saver), lose)


def test_a_connection_is_open_while_a_lock_is_held(postgres_dsn: str) -> None:
    with PostgresSaver.from_conn_string(postgres_dsn) as saver:

        def connections() -> int:
            query = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
            with saver._cursor() as cursor:
                row: Any = cursor.execute(query).fetchone()
            return int(row["n"])

        locks = PostgresLocks(saver)
        releases = [locks.take(ThreadKey(str(number))) for number in range(50)]
        assert connections() == 2
        for release in releases:
            release()
        release = locks.take(KEY)
        assert connections() <= 2
        release()


def test_a_write_sees_in_its_own_transaction_that_the_lock_is_lost(postgres_dsn: str) -> None:
    """Nobody has taken it since: its token is still there."""
    with (
        PostgresSaver.from_conn_string(postgres_dsn) as saver,
        psycopg.connect(postgres_dsn, autocommit=True) as connection,
    ):
        held: Any = PostgresLocks(saver).take(KEY)
        cursor = connection.cursor()
        held.check_within(cursor, begins=True)
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [held.pid])
        held.check_within(cursor, begins=False)  # What ended is written.
        with pytest.raises(LostLockError, match="connection that held it broke"):
            held.check_within(cursor, begins=True)
        held()
