"""The contract of journals, held against those in PostgreSQL."""

from collections.abc import Iterator
from inspect import signature

import pytest
from langgraph.store.postgres import PostgresStore

from skills_agent.graph.threads.store_journal import StoreJournal
from skills_agent.nodes.effects import Journal
from skills_agent.server.postgres_journal import PostgresJournal
from tests.contracts import test_journal_contract

# Every test that takes a journal, also those that are written later: they take the fixture of this module.
globals().update(
    {
        name: test
        for name, test in vars(test_journal_contract).items()
        if name.startswith("test_") and "journal" in signature(test).parameters
    }
)


@pytest.fixture(params=["table", "store"])
def journal(request: pytest.FixtureRequest, postgres_dsn: str) -> Iterator[Journal]:
    """Yield a journal in a database: in its own table, or in LangGraph's store."""
    if request.param == "table":
        yield PostgresJournal(postgres_dsn)
        return
    with PostgresStore.from_conn_string(postgres_dsn) as store:
        store.setup()
        yield StoreJournal(store)
