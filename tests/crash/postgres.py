"""What the crash program keeps in PostgreSQL, with its kill points."""

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from skills_agent.server.postgres_journal import PostgresJournal
from tests.crash.points import AsyncKilling, Killing, KillingJournal


class KillingPostgresJournal(KillingJournal, PostgresJournal):
    """A table, as the agent keeps for threads in PostgreSQL, written in one step with a look at the lock."""


class KillingPostgres(Killing, PostgresSaver):
    """PostgreSQL."""


class KillingAsyncPostgres(AsyncKilling, AsyncPostgresSaver):
    """PostgreSQL."""


def set_up(dsn: str) -> None:
    """Make the tables of a database."""
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.setup()
