"""A journal in LangGraph's store, for threads that several machines reach by a saver of a host's own."""

import hashlib
import logging
from contextlib import suppress
from typing import Any, Final

import msgspec
from langgraph.store.base import BaseStore, Item, PutOp

from skills_agent.graph.threads.journals import SearchedJournal, age, checksum_of, row_of
from skills_agent.nodes.effects import JournalEntry

logger = logging.getLogger(__name__)

_NAMESPACE: Final = ("skills-agent", "journal")
_PAGE: Final = 100


class StoreJournal(SearchedJournal):
    """A journal in a store: as durable, and reached from as many machines, as the store is.

    An entry has a checksum, and a damaged one stands for an unknown outcome.
    """

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        item = self._store.get(_namespace(thread), _name(call_id), refresh_ttl=False)
        return None if item is None else self._read(item, thread, call_id)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one batch with the removal of the entry of the call id `replacing`."""
        namespace, value = _namespace(entry.thread), msgspec.to_builtins(entry)
        value["checksum"] = checksum_of(row_of(entry))
        writes = [PutOp(namespace, _name(entry.call_id), value, index=False, ttl=None)]
        if replacing is not None and replacing != entry.call_id:
            writes.append(PutOp(namespace, _name(replacing), None))
        self._store.batch(writes)

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""
        namespace = _namespace(thread)
        if items := self._items(thread):
            self._store.batch([PutOp(namespace, item.key, None) for item in items])

    def _search(self, thread: str, **fields: Any) -> list[JournalEntry]:
        return sorted((self._read(item, thread) for item in self._items(thread, **fields)), key=age)

    def _items(self, thread: str, **fields: Any) -> list[Item]:
        items: list[Item] = []
        while True:
            page = self._store.search(
                _namespace(thread), filter=fields, limit=_PAGE, offset=len(items), refresh_ttl=False
            )
            items += page
            if len(page) < _PAGE:
                return items

    def _read(self, item: Item, thread: str, call_id: str | None = None) -> JournalEntry:
        named, digest = (str(item.value.get(name)) for name in ("call_id", "digest"))
        with suppress(msgspec.ValidationError):
            entry = msgspec.convert(item.value, JournalEntry)
            is_whole = item.value.get("checksum") == checksum_of(row_of(entry))
            if is_whole and entry.thread == thread and item.key == _name(named):
                return entry
        logger.warning("journal entry is not confirmed", extra={"of_thread": thread, "key": item.key})
        return JournalEntry.lost(thread, call_id or named, digest)


def _namespace(thread: str) -> tuple[str, ...]:
    return (*_NAMESPACE, _name(thread))


def _name(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
