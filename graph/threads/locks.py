"""One invocation of a thread at a time: locks that end with the process that holds them."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol

from skills_agent.graph.private_files import open_private
from skills_agent.graph.threads.errors import LostLockError, ThreadBusyError, ThreadError
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.skills import posix

Release = Callable[[], None]


class ThreadKey(NamedTuple):
    """A thread, or a graph inside another one on that thread."""

    thread: str
    namespace: str = ""
    """The checkpoint namespace of a graph inside another one."""

    @property
    def digest(self) -> bytes:
        """Return 32 bytes that stand for it: a client may choose the thread's id."""
        return hashlib.sha256("\0".join(self).encode(errors="surrogatepass")).digest()


class HeldLock(Protocol):
    """What a lock may return when it is taken: what unlocks it, and says whether it is still held."""

    def __call__(self) -> None:
        """Unlock."""

    def check(self, *, begins: bool) -> None:
        """Raise LostLockError where somebody else has, or had, the lock since it was taken.

        `begins`: also where it is merely lost. What ended is written down while nobody else has it.
        """


class ThreadLocks(Protocol):
    """Locks of threads that keep out other processes, and other objects of this protocol in this one.

    `build_graph(locks=...)` takes any. A lock must end with the process that holds it, however that ends.
    tests/contracts/lock_contract.py says what every kind must do.
    """

    def take(self, key: ThreadKey) -> Release:
        """Lock a thread and return what unlocks it.

        Raises ThreadBusyError at once if the thread is locked. This is never called on an event loop; what
        it returns may be. Where that is a `HeldLock`, it is checked before each effect and each write of the
        journal.
        """
        ...


class LockTable:
    """The locks that this process holds, and the locks beside it that keep other processes out."""

    def __init__(self, locks: ThreadLocks | None) -> None:
        """Keep nobody else out where `locks` is None: threads in memory have no other process."""
        # For a network, perhaps: an event loop leaves that to another thread.
        self.waits = locks is not None and not isinstance(locks, FileLocks)
        self._locks = locks
        self._lock = Lock()
        self._held: dict[ThreadKey, tuple[Release, list[Cancellation]]] = {}

    def take(self, key: ThreadKey, holder: Cancellation) -> Release:
        """Lock a thread and return what unlocks it; raises ThreadBusyError.

        Calls of one subgraph may run in parallel: they share a lock, and LangGraph numbers their namespaces.
        A lock is also shared with holders that were cancelled and do not end: other processes stay out.
        """
        with self._lock:
            held = self._held.get(key)
            if held is None:
                release = self._locks.take(key) if self._locks is not None else lambda: None
                held = self._held[key] = (release, [])
            elif not key.namespace and not all(each.is_overdue for each in held[1]):
                raise ThreadBusyError(key.thread)
            held[1].append(holder)
        return lambda: self._release(key, holder)

    def held(self, key: ThreadKey) -> HeldLock | None:
        """Return the lock that is held on a thread, where it can say whether it was lost."""
        with self._lock:
            held = self._held.get(key)
        return held[0] if held and hasattr(held[0], "check") else None

    def is_ending(self, key: ThreadKey) -> bool:
        """Return whether a thread is held by what was cancelled, and is about to end: within STOP_SECONDS."""
        with self._lock:
            held = self._held.get(key)
            holders = held[1] if held and not key.namespace else []
            is_late = all(holder.is_overdue for holder in holders)
            return all(holder.is_requested for holder in holders) and not is_late

    def _release(self, key: ThreadKey, holder: Cancellation) -> None:
        with self._lock:
            release, holders = self._held[key]
            holders.remove(holder)
            if not holders:
                del self._held[key]
                release()


class FileLocks:
    """A locked file (flock) for each thread that runs, in one folder; it is removed afterwards.

    For processes on one machine. The kernel unlocks it when its holder ends, however it ends.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, key: ThreadKey) -> Release:
        """Lock a thread; raises ThreadBusyError, and ThreadError where no file can be made."""
        path = f"{self._folder}/{key.digest.hex()}.lock"
        while True:
            try:
                file = open_private(Path(path), os.O_RDWR)
            except OSError as error:
                raise ThreadError(
                    f"Cannot lock thread {key.thread}: {self._folder} cannot be written ({error.strerror}). "
                    "Nothing was run or changed."
                ) from error
            try:
                posix.fcntl.flock(file, posix.fcntl.LOCK_EX | posix.fcntl.LOCK_NB)
                if _is_at(file, path):  # Else its holder removed it in between.
                    _locked.add(file)
                    return _LockedFile(key.thread, file, path)
            except BlockingIOError as error:
                if _is_at(file, path):
                    raise ThreadBusyError(key.thread) from error
            finally:
                if file not in _locked:
                    os.close(file)


@dataclass(frozen=True)
class _LockedFile:
    thread: str
    file: int
    path: str

    def __call__(self) -> None:
        if self.file not in _locked:  # In a forked child.
            return
        _locked.discard(self.file)
        try:
            if _is_at(self.file, self.path):  # It goes while it is locked; not somebody else's.
                Path(self.path).unlink()
        finally:
            os.close(self.file)

    def check(self, *, begins: bool) -> None:
        try:
            now = Path(self.path).stat()
        except FileNotFoundError:
            if begins:
                raise LostLockError(self.thread, "its file was removed") from None
            return
        if self.file not in _locked or not os.path.samestat(os.fstat(self.file), now):
            raise LostLockError(self.thread, "its file was replaced")


def _is_at(file: int, path: str) -> bool:
    """Return whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), Path(path).stat())
    except FileNotFoundError:
        return False


_locked: set[int] = set()
"""Descriptors of locked files."""


def _close_in_child() -> None:
    """Keep a forked child from holding the locks of a parent that was killed."""
    for file in _locked:
        os.close(file)
    _locked.clear()


if not posix.MISSING:
    os.register_at_fork(after_in_child=_close_in_child)
