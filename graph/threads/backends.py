"""The journal and the locks of a thread: named by the host, else chosen here from the checkpointer."""

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from threading import Lock
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.langgraph_inside import identity_of, kind_of
from skills_agent.graph.private_files import make_private_folder
from skills_agent.graph.serialisation import Key
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.journals import FileJournal
from skills_agent.graph.threads.left_running import Keeper
from skills_agent.graph.threads.locks import FileLocks, LockTable, ThreadLocks
from skills_agent.graph.threads.opened import find_postgres, postgres
from skills_agent.graph.threads.store_journal import StoreJournal
from skills_agent.graph.user_folders import make_state_folder, process_environment, state_folder
from skills_agent.nodes.effects import Journal
from skills_agent.nodes.invocations import Invocations

JOURNAL_FILE: Final = "journal.sqlite"
LOCK_FOLDER: Final = "locks"

logger = logging.getLogger(__name__)
Made = TypeVar("Made")


@dataclass(frozen=True)
class ThreadServices:
    """What the compiled graph runs its threads with."""

    settings: Settings
    audit: Audit
    left_running: Sequence[Keeper]
    before_turn: Callable[[], object] | None
    """Does what a turn needs before it begins, and may block; None: nothing is to be done."""
    journal: Journal | None
    """The host's own; None: chosen from the saver."""
    locks: ThreadLocks | None
    """The host's own; None: chosen from the saver."""
    allowed_types: Mapping[Key, type]
    """The host's own types that records may hold."""
    invocations: Invocations = field(default_factory=Invocations)
    served_locks: LockTable = field(default_factory=partial(LockTable, None))
    """Of threads that LangGraph's server runs."""

    def journal_of(
        self, saver: BaseCheckpointSaver[Any], store: BaseStore | None = None, *, is_served: bool = False
    ) -> Journal:
        """Return the journal for threads of a saver: the host's, a database, else the store, else a file.

        A database is that of the saver or, where LangGraph's server runs the graph, its own; for a server
        that has none, as `langgraph dev`, a file: clients of a server can write its store. A journal must
        live as long as the threads do: for threads in memory it is in memory, and a store in memory is none
        for threads on a disk.
        """
        if self.journal is not None:
            return self.journal
        kind = kind_of(saver)
        if kind == "postgres":
            return _journal_in(postgres().conninfo_of(saver))
        if is_served:
            found, dsn = find_postgres(), _server_database(self.settings)
            return _journal_in(dsn) if dsn and found and found.is_usable() else self._file_journal
        if kind == "memory":
            return _shared(_journals, saver, lambda: StoreJournal(InMemoryStore()))
        if store is not None and not isinstance(store, InMemoryStore):
            return StoreJournal(store)
        if kind == "other":
            _warn_of_files(type(saver).__name__)
        return self._file_journal

    def locks_of(self, saver: BaseCheckpointSaver[Any], *, is_served: bool = False) -> LockTable:
        """Return the locks for threads of a saver: the host's, else in memory, on the server, or files.

        LangGraph's server has locks of its own, but frees them while a cancelled tool may still run.
        """
        if is_served:
            return self.served_locks
        kind = kind_of(saver)
        if self.locks is None and kind in {"memory", "postgres"}:
            return _shared(_locks, saver, partial(_make_locks, saver))
        if self.locks is None and kind == "other":
            _warn_of_files(type(saver).__name__)
        return self._lock_table

    @cached_property
    def _file_journal(self) -> FileJournal:
        # Nothing is looked up or made before the first write: an event loop calls this.
        make = partial(make_state_folder, self.settings)
        return FileJournal(lambda: state_folder(self.settings) / JOURNAL_FILE, make)

    @cached_property
    def _lock_table(self) -> LockTable:
        if self.locks is not None:
            return LockTable(self.locks)
        return LockTable(FileLocks(make_private_folder(make_state_folder(self.settings) / LOCK_FOLDER)))


def _server_database(settings: Settings) -> str:
    """Return the connection string of the database that LangGraph's server keeps threads in; empty for none.

    The server reads it from these variables, too; the setting `server_database` is stronger.
    """
    environment = process_environment()
    named = [settings.database, environment.get("DATABASE_URI"), environment.get("POSTGRES_URI")]
    return next((dsn for dsn in named if dsn and dsn.startswith(("postgres://", "postgresql://"))), "")


_locks: Final[MutableMapping[Any, LockTable]] = WeakKeyDictionary()
_journals: Final[MutableMapping[Any, Journal]] = WeakKeyDictionary()
"""Of threads in memory."""
_lock: Final = Lock()


def _shared(
    made: MutableMapping[Any, Made], saver: BaseCheckpointSaver[Any], make: Callable[[], Made]
) -> Made:
    """Return what all graphs of this process over the threads of a saver share."""
    key = identity_of(saver)
    with _lock:
        if key not in made:
            made[key] = make()
        return made[key]


def _make_locks(saver: BaseCheckpointSaver[Any]) -> LockTable:
    return LockTable(postgres().locks(saver) if kind_of(saver) == "postgres" else None)


@cache
def _journal_in(dsn: str) -> Journal:
    return postgres().journal(dsn)


@cache
def _warn_of_files(saver: str) -> None:
    """Log once for each unknown class of savers: its threads may be on another machine."""
    logger.warning(
        "Threads of %s are locked by files of this user, and so is their journal unless the graph has a "
        "store: that holds on this machine only. Name others: build_graph(journal=..., locks=...)",
        saver,
    )
