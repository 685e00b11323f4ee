"""The journal of one invocation: it writes nothing once the lock of the thread is lost."""

from skills_agent.graph.threads.locks import HeldLock
from skills_agent.nodes.effects import Journal, JournalEntry


class FencedJournal:
    """A journal that is written while a lock is held. Raises LostLockError.

    A start is written only while the lock is held for sure; what ended also where it is lost and nobody else
    has taken it.
    """

    def __init__(self, journal: Journal, lock: HeldLock) -> None:
        self._journal = journal
        self._lock = lock

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""
        return self._journal.get(thread, call_id)

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        """Return the entries of a thread with this effect, the oldest start first."""
        return self._journal.alike(thread, digest)

    def unsettled(self, thread: str) -> list[JournalEntry]:
        """Return the entries of a thread that are done and not settled."""
        return self._journal.unsettled(thread)

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the check where lock and journal are in one database."""
        begins, lock, journal = entry.status == "started", self._lock, self._journal
        put_into = getattr(lock, "put_into", None)
        if put_into is not None and put_into(journal, entry, replacing=replacing, begins=begins):
            return
        lock.check(begins=begins)
        journal.put(entry, replacing=replacing)

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""
        self._journal.forget(thread)
