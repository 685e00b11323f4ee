"""One run of a thread at a time: locks that end with the process that holds them."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from langgraph.checkpoint.base import BaseCheckpointSaver

from skills_agent.graph.private_files import ignore_in_git
from skills_agent.graph.savers import identity, is_in_memory, is_postgres
from skills_agent.graph.thread_errors import ThreadBusyError

FOLDER: Final = Path(".agent", "locks")

Release = Callable[[], None]


class ThreadKey(NamedTuple):
    """What is locked."""

    thread: str
    namespace: str = ""
    """The checkpoint namespace of a graph inside another one."""

    @property
    def digest(self) -> bytes:
        """Return 32 bytes that stand for it: a client may choose the thread's id."""
        return hashlib.sha256("\0".join(self).encode(errors="surrogatepass")).digest()


class ThreadLocks(Protocol):
    """Locks of threads that keep out other processes, and other holders of this protocol in this one."""

    def take(self, key: ThreadKey) -> Release:
        """Take the lock of a thread and return what gives it back.

        Raises ThreadBusyError at once where it is taken.
        """
        ...


class Guard:
    """The locks of this process: what it holds of `locks`, or of none."""

    def __init__(self, locks: ThreadLocks | None, *, waits: bool = False) -> None:
        """Take what keeps out other processes; None: there are none that could come.

        `waits`: taking a lock waits for a network, and has no place on an event loop.
        """
        self.waits = waits
        self._locks = locks
        self._lock = Lock()
        self._held: dict[ThreadKey, tuple[int, Release]] = {}

    def take(self, key: ThreadKey) -> Release:
        """Take the lock of a thread; raises ThreadBusyError.

        Calls of a graph inside a task of another one share a namespace, and go on in parallel if that
        task wants it: it numbers them itself.
        """
        with self._lock:
            count, release = self._held.get(key, (0, _nothing))
            if count and not key.namespace:
                raise ThreadBusyError(key.thread)
            if not count and self._locks is not None:
                release = self._locks.take(key)
            self._held[key] = (count + 1, release)
        return lambda: self._release(key)

    def _release(self, key: ThreadKey) -> None:
        with self._lock:
            count, release = self._held.pop(key)
            if count > 1:
                self._held[key] = (count - 1, release)
            else:
                release()


class FileLocks:
    """A file a thread in a folder, locked while it runs (flock), and removed afterwards.

    For processes on one machine. The kernel gives the lock back when its holder ends, however it ends.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder; it is made when it is needed."""
        self._folder = folder

    def take(self, key: ThreadKey) -> Release:
        """Take the lock of a thread; raises ThreadBusyError, and OSError where no file can be made."""
        # Windows has none.
        import fcntl  # noqa: PLC0415

        place = f"{self._folder}{os.sep}{key.digest.hex()}.lock"
        while True:
            file = self._open(place)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_there = _is_same(file, place)
            except BlockingIOError as error:
                os.close(file)
                raise ThreadBusyError(key.thread) from error
            except BaseException:
                os.close(file)
                raise
            if is_there:
                return lambda: _remove(file, place)
            # Its last holder has removed it since it was opened here.
            os.close(file)

    def _open(self, place: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(place, flags, 0o600)
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True)
            ignore_in_git(self._folder, "*")
            return os.open(place, flags, 0o600)


def _is_same(file: int, place: str) -> bool:
    try:
        there = os.stat(place)  # noqa: PTH116 - of a name that is text already
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), there)


def _remove(file: int, place: str) -> None:
    """Give the lock back; the file goes while it is locked, so that nobody locks one that is gone."""
    try:
        os.unlink(place)  # noqa: PTH108
    except FileNotFoundError:  # somebody has cleaned up
        pass
    finally:
        os.close(file)


class Locks:
    """The locks for threads of any saver, in one workspace."""

    def __init__(self, workspace: Path) -> None:
        """Take the workspace."""
        self._files = Guard(FileLocks(workspace / FOLDER))

    def of(self, saver: BaseCheckpointSaver[Any]) -> Guard:
        """Return the locks for threads of a saver.

        Threads in memory are those of one process, in PostgreSQL those of everybody, and all others count
        as those of the workspace.
        """
        if is_in_memory(saver):
            return _guard(saver, lambda: Guard(None))
        if is_postgres(saver):
            # An extra: who keeps threads in files does not have it.
            from skills_agent.graph.locks_postgres import PostgresLocks  # noqa: PLC0415

            return _guard(saver, lambda: Guard(PostgresLocks.beside(saver), waits=True))
        return self._files


_GUARDS: WeakKeyDictionary[Any, Guard] = WeakKeyDictionary()
_MAKING = Lock()


def _guard(saver: BaseCheckpointSaver[Any], make: Callable[[], Guard]) -> Guard:
    key = identity(saver)
    with _MAKING:
        if key not in _GUARDS:
            _GUARDS[key] = make()
        return _GUARDS[key]


def _nothing() -> None:
    return
