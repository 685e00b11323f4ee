"""The journal in LangGraph's store."""

import hashlib
from collections.abc import Collection
from typing import Any, Final

from langgraph.store.base import BaseStore, Item, PutOp

from skills_agent.nodes.effects import JournalEntry

_NAMESPACE: Final = ("skills-agent", "journal")
_PAGE: Final = 100


class StoreJournal:
    """A journal in a store: as durable, and reached from as many machines, as the store is.

    Each thread has a namespace, each call an item; both names are digests, because a store takes no dots
    in the one and a client may choose the other.
    """

    def __init__(self, store: BaseStore) -> None:
        """Take the store."""
        self._store = store

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        item = self._store.get(_namespace(thread), _name(call_id), refresh_ttl=False)
        return None if item is None else _entry(item)

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        """Return the entries of a thread with this effect, the oldest start first."""
        return self._search(thread, {"digest": digest})

    def unsettled(self, thread: str) -> list[JournalEntry]:
        """Return the entries of a thread that are done and not settled."""
        return self._search(thread, {"status": "done", "settled": False})

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one batch with the removal of the entry of the call id `replacing`."""
        place = _namespace(entry.thread)
        writes = [PutOp(place, _name(entry.call_id), entry.as_json(), index=False, ttl=None)]
        if replacing is not None and replacing != entry.call_id:
            writes.append(PutOp(place, _name(replacing), None))
        self._store.batch(writes)

    def forget(self, thread: str, *, kept: Collection[str] | None = None) -> None:
        """Remove the entries of a thread; with `kept`, those that no run of these checkpoints can find."""
        wanted = {} if kept is None else {"status": "done", "settled": True}
        gone = [
            PutOp(_namespace(thread), _name(entry.call_id), None)
            for entry in self._search(thread, wanted)
            if kept is None or entry.checkpoint not in kept
        ]
        if gone:
            self._store.batch(gone)

    def _search(self, thread: str, wanted: dict[str, Any]) -> list[JournalEntry]:
        found: list[JournalEntry] = []
        while True:
            page = self._store.search(
                _namespace(thread), filter=wanted, limit=_PAGE, offset=len(found), refresh_ttl=False
            )
            found += [_entry(item) for item in page]
            if len(page) < _PAGE:
                return sorted(found, key=lambda entry: (entry.started, entry.call_id))


def _namespace(thread: str) -> tuple[str, ...]:
    return (*_NAMESPACE, _name(thread))


def _name(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _entry(item: Item) -> JournalEntry:
    return JournalEntry.from_json(item.value)
