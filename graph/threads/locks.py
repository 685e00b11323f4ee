"""One invocation of a thread at a time: locks that end with the process that holds them."""

import hashlib
import os
import secrets
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, Protocol

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
    tests/contracts/test_locks_contract.py says what every kind must do.
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
        self._held: dict[ThreadKey, _Held] = {}

    def take(self, key: ThreadKey, cancellation: Cancellation | None = None) -> Release:
        """Lock a thread and return what unlocks it; raises ThreadBusyError.

        Calls of one subgraph may run in parallel: they share a lock, and LangGraph numbers their namespaces.
        A lock is also shared with holders that were cancelled and do not end: other processes stay out.
        """
        holder = cancellation or Cancellation()
        with self._lock:
            held = self._held.get(key)
            if held is None:
                release = self._locks.take(key) if self._locks is not None else lambda: None
                held = self._held[key] = _Held(release, [])
            elif not key.namespace and not all(each.is_overdue for each in held.holders):
                raise ThreadBusyError(key.thread)
            held.holders.append(holder)
        return lambda: self._release(key, holder)

    def held(self, key: ThreadKey) -> HeldLock | None:
        """Return the lock that is held on a thread, where it can say whether it was lost."""
        with self._lock:
            held = self._held.get(key)
        return held.release if held and hasattr(held.release, "check") else None

    def is_ending(self, key: ThreadKey) -> bool:
        """Return whether a thread is held by what was cancelled, and is about to end."""
        with self._lock:
            held = self._held.get(key)
            holders = held.holders if held and not key.namespace else []
            is_late = all(each.is_overdue for each in holders)
            return all(each.is_requested for each in holders) and not is_late

    def _release(self, key: ThreadKey, holder: Cancellation) -> None:
        with self._lock:
            held = self._held[key]
            held.holders.remove(holder)
            if not held.holders:
                del self._held[key]
                held.release()


class _Held(NamedTuple):
    release: Release
    holders: list[Cancellation]


class FileLocks:
    """A locked file (flock) for each thread that runs, in one folder; it is removed afterwards.

    For processes on one machine. The kernel unlocks it when its holder ends, however it ends.

    What was given back stays open and locked under a name of its own, as a *spare*, and the next thread gets
    it by a second name: to make and remove a file in each turn slows down the making of any file, as ext4
    passes by the inodes that were freed in the last half minute one by one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.spares: list[_Spare] = []
        self._is_swept = False
        _all.add(self)
        weakref.finalize(self, _close_all, self.spares)

    def take(self, key: ThreadKey) -> Release:
        """Lock a thread; raises ThreadBusyError, and ThreadError where no file can be made."""
        path = f"{self._folder}/{key.digest.hex()}.lock"
        if self.spares:
            spare = self.spares.pop()
            try:
                os.link(spare.path, path)
            except FileExistsError:  # Held, or left behind.
                self.spares.append(spare)
            except OSError:  # The folder was removed, say.
                spare.close()
            else:
                return _LockedFile(key.thread, spare, path, self.spares)
        return _LockedFile(key.thread, self._lock_file(key, path), path, self.spares)

    def _lock_file(self, key: ThreadKey, path: str) -> "_Spare":
        """Lock the file of that name, and make it where there is none."""
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
                if _is_at(file, path):
                    _locked.add(file)
                    return self._spare(file, path)
            except BlockingIOError as error:
                if _is_at(file, path):  # Else it was given back, and is a spare.
                    raise ThreadBusyError(key.thread) from error
            finally:
                if file not in _locked:
                    os.close(file)

    def _spare(self, file: int, path: str) -> "_Spare":
        if not self._is_swept:
            self._is_swept = True
            _remove_spares(self._folder)
        spare = _Spare(file, f"{self._folder}/{secrets.token_hex(8)}{_SPARE}")
        with suppress(OSError):  # A file system without hard links: then it is used once.
            os.link(path, spare.path)
        return spare


_SPARE: Final = ".spare"
_MAX_SPARES: Final = 64


class _Spare(NamedTuple):
    """A locked file, and the name that it has also when it is no thread's."""

    file: int
    path: str

    def close(self) -> None:
        _locked.discard(self.file)
        try:
            with suppress(OSError):
                os.unlink(self.path)  # noqa: PTH108 - texts, as this is in every turn
        finally:
            os.close(self.file)


def _remove_spares(folder: Path) -> None:
    """Remove what processes left behind that were killed."""
    for path in folder.glob(f"*{_SPARE}"):
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                posix.fcntl.flock(file, posix.fcntl.LOCK_EX | posix.fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(file)


@dataclass(frozen=True)
class _LockedFile:
    thread: str
    spare: _Spare
    path: str
    spares: list[_Spare]

    def __call__(self) -> None:
        if self.spare.file not in _locked:  # In a forked child.
            return
        is_reusable = False
        try:
            if _is_at(self.spare.file, self.path):  # It goes while it is locked; not somebody else's.
                os.unlink(self.path)  # noqa: PTH108
                is_reusable = len(self.spares) < _MAX_SPARES
        finally:
            if is_reusable:
                self.spares.append(self.spare)
            else:
                self.spare.close()

    def check(self, *, begins: bool) -> None:
        try:
            now = os.stat(self.path)  # noqa: PTH116
        except FileNotFoundError:
            if begins:
                raise LostLockError(self.thread, "its file was removed") from None
            return
        if self.spare.file not in _locked or not os.path.samestat(os.fstat(self.spare.file), now):
            raise LostLockError(self.thread, "its file was replaced")


def _is_at(file: int, path: str) -> bool:
    """Return whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return False


_locked: set[int] = set()
"""Descriptors of locked files."""
_all: Final["weakref.WeakSet[FileLocks]"] = weakref.WeakSet()


def _close_all(spares: list[_Spare]) -> None:
    while spares:
        spares.pop().close()


def _close_in_child() -> None:
    """Keep a forked child from holding the locks of a parent that was killed."""
    for file in _locked:
        os.close(file)
    _locked.clear()
    for locks in _all:
        locks.spares.clear()


if not posix.MISSING:
    os.register_at_fork(after_in_child=_close_in_child)
