"""PostgreSQL: the same threads, in a real server."""

import psycopg
import pytest

from tests.postgres import Postgres


def test_a_server_of_its_own_takes_connections_with_the_password_alone(postgres: Postgres) -> None:
    dsn = postgres.new_database()
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT 1").fetchone()
    assert row == (1,)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(dsn.replace(postgres.password, "wrong"))
