"""Which journal a run writes."""

from pathlib import Path
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from skills_agent.graph.threads.journal_sqlite import FileJournal
from skills_agent.graph.threads.journal_store import StoreJournal
from skills_agent.graph.threads.savers import identity, is_in_memory
from skills_agent.nodes.effects import Journal

PLACE: Final = Path(".agent", "journal.sqlite")

_IN_MEMORY: WeakKeyDictionary[Any, FileJournal] = WeakKeyDictionary()
_MAKING = Lock()


class Journals:
    """The journals of one workspace.

    The store, where there is one, else a file of the workspace. A journal must live as long as the
    threads do: for threads in memory it is in memory, and a store in memory is none for threads on a disk.
    """

    def __init__(self, workspace: Path) -> None:
        """Take the workspace."""
        self._file = FileJournal(workspace / PLACE)

    def of(self, saver: BaseCheckpointSaver[Any], store: BaseStore | None) -> Journal:
        """Return the journal for threads of a saver."""
        in_memory = is_in_memory(saver)
        if store is not None and (in_memory or not isinstance(store, InMemoryStore)):
            return StoreJournal(store)
        if not in_memory:
            return self._file
        with _MAKING:
            return _IN_MEMORY.setdefault(identity(saver), FileJournal(None))
