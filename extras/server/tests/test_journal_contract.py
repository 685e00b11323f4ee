"""The contract of journals, held against those in PostgreSQL."""

from inspect import signature

import pytest

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


@pytest.fixture
def journal(postgres_dsn: str) -> Journal:
    """Return a journal in a table of its own."""
    return PostgresJournal(postgres_dsn)
