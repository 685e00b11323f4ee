"""Threads in PostgreSQL, where an extra brings it."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from langgraph.checkpoint.base import BaseCheckpointSaver

from skills_agent.graph.hooks import first
from skills_agent.graph.threads.errors import DatabaseError
from skills_agent.nodes.effects import Journal

if TYPE_CHECKING:
    from skills_agent.graph.threads.locks import ThreadLocks


class Postgres(Protocol):
    """What an extra brings to keep threads in PostgreSQL."""

    def open_postgres(self, dsn: str, /) -> AbstractContextManager[BaseCheckpointSaver[Any]]:
        """Open the threads, making the tables where there are none. Raises DatabaseError."""

    def without_password(self, dsn: str, /) -> str:
        """Return a connection string as it may be shown; nothing of one whose password is not certain."""

    def is_usable(self) -> bool:
        """Return whether its package is installed, with a warning in the log where it is not."""

    def conninfo_of(self, saver: BaseCheckpointSaver[Any], /) -> str:
        """Return how the connection of a saver was made, password included."""

    def journal(self, dsn: str, /) -> Journal:
        """Return the journal in a database."""

    def locks(self, saver: BaseCheckpointSaver[Any], /) -> "ThreadLocks":
        """Return locks in the database of a saver."""


def find_postgres() -> Postgres | None:
    """Return what keeps threads in PostgreSQL; None where no extra does."""
    found: Postgres | None = first("database")
    return found


def postgres() -> Postgres:
    """Return what keeps threads in PostgreSQL. Raises DatabaseError where no extra does."""
    found = find_postgres()
    if found is None:
        raise DatabaseError(
            "Threads in PostgreSQL need the part server: pip install 'skills-agent[postgres]'"
        )
    return found
