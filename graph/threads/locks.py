"""One run of a thread at a time: locks that end with the process that holds them."""

import hashlib
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from struct import Struct
from tempfile import TemporaryFile
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakSet

from langgraph.checkpoint.base import BaseCheckpointSaver

from skills_agent.graph.threads.errors import ThreadBusyError
from skills_agent.graph.threads.private_files import open_private
from skills_agent.graph.threads.savers import identity, is_in_memory, is_postgres

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


class ByteLocks:
    """A byte a thread of one file, locked while it runs: Linux's locks of an open file description.

    For processes on one machine. The kernel gives the lock back when its holder ends, however it ends. They
    hold as well as a file for each thread, and cost a tenth of making one and removing it.
    """

    FILE: Final = "threads.lock"

    def __init__(self, folder: Path) -> None:
        """Take the folder; it is made when it is needed."""
        self._place = folder / self.FILE
        self._lock = Lock()
        self._open: _OpenFile | None = None

    def take(self, key: ThreadKey) -> Release:
        """Take the lock of a thread; raises ThreadBusyError, and OSError where no file can be made."""
        import fcntl

        byte = int.from_bytes(key.digest[:8], "big") >> 2
        file = self._file()
        try:
            fcntl.fcntl(
                file.descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
            )
        except (BlockingIOError, PermissionError) as error:  # EAGAIN or EACCES: another one has it
            raise ThreadBusyError(key.thread) from error
        unlock = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, byte, 1, 0)
        return lambda: file.control(fcntl.F_OFD_SETLK, unlock)

    def _file(self) -> "_OpenFile":
        """Return the file, opened anew where this is a child process, or somebody has removed it."""
        with self._lock:
            if self._open is None or not self._open.is_at(self._place):
                self._open = _OpenFile(open_private(self._place, os.O_RDWR))
            return self._open


@lru_cache(maxsize=1)
def has_byte_locks() -> bool:
    """Tell whether this system has ByteLocks, by trying: Linux does, and some that look like it do not."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        with TemporaryFile() as file:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    except OSError:
        return False
    return True


class _OpenFile:
    """A descriptor that is closed when nobody needs it, and in every child process.

    A child that kept it would hold the locks of a parent that was killed.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        _OPEN_FILES.add(self)

    def is_at(self, place: Path) -> bool:
        """Tell whether it is open, and the file of that name."""
        return self.descriptor >= 0 and _is_same(self.descriptor, place)

    def control(self, command: int, argument: bytes) -> None:
        """Call fcntl; a file that is closed has no locks."""
        import fcntl

        if self.descriptor >= 0:
            fcntl.fcntl(self.descriptor, command, argument)

    def close(self) -> None:
        """Close it, once."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        """Close it."""
        self.close()


_FLOCK: Final = Struct("hhqqi")
"""Linux's `struct flock` (fcntl.h): type, whence, start, length, pid; pid is 0."""
_OPEN_FILES: WeakSet[_OpenFile] = WeakSet()


def _close_in_child() -> None:
    for file in list(_OPEN_FILES):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class FileLocks:
    """A file a thread in a folder, locked while it runs (flock), and removed afterwards.

    For processes on one machine, where the system has no ByteLocks. The kernel gives the lock back when its
    holder ends, however it ends.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder; it is made when it is needed."""
        self._folder = folder

    def take(self, key: ThreadKey) -> Release:
        """Take the lock of a thread; raises ThreadBusyError, and OSError where no file can be made."""
        # Windows has none.
        import fcntl

        place = self._folder / f"{key.digest.hex()}.lock"
        while True:
            file = open_private(place, os.O_RDWR)
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


def _is_same(file: int, place: Path) -> bool:
    try:
        there = place.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), there)


def _remove(file: int, place: Path) -> None:
    """Give the lock back; the file goes while it is locked, so that nobody locks one that is gone."""
    try:
        place.unlink(missing_ok=True)
    finally:
        os.close(file)


class Locks:
    """The locks for threads of any saver, in one workspace."""

    def __init__(self, workspace: Path) -> None:
        """Take the workspace."""
        kind = ByteLocks if has_byte_locks() else FileLocks
        self._files = Guard(kind(workspace / FOLDER))

    def of(self, saver: BaseCheckpointSaver[Any]) -> Guard:
        """Return the locks for threads of a saver.

        Threads in memory are those of one process, in PostgreSQL those of everybody, and all others count
        as those of the workspace.
        """
        if is_in_memory(saver):
            return _guard(saver, lambda: Guard(None))
        if is_postgres(saver):
            # An extra: who keeps threads in files does not have it.
            from skills_agent.graph.threads.locks_postgres import PostgresLocks

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
