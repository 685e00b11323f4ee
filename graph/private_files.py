"""Folders and files of this user alone: what the agent keeps and believes is in them."""

import errno
import hashlib
import os
import re
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from skills_agent.skills.errors import DetailedError, SkillsAgentError

BUSY_SECONDS: Final = 30
"""How long a writer waits for another process."""
_RETRY_SECONDS: Final = 0.05
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY})
"""What SQLite says where it can make no log beside a file."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


ROOM: Final = "Free some room, or set XDG_STATE_HOME to a folder on another disk."
"""What to do where `is_full`."""


def is_full(error: Exception) -> bool:
    """Return whether a write failed because the disk has no room."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code == sqlite3.SQLITE_FULL or getattr(error, "errno", 0) in {errno.ENOSPC, errno.EDQUOT}


def folder_name(thread: str) -> str:
    """Return a name for a thread's folder; a client chooses the thread's id, so it may be any text.

    The digest keeps names apart that differ in case only, where a file system does not.
    """
    digest = hashlib.sha256(thread.encode(errors="replace")).hexdigest()
    return f"{thread}.{digest[:8]}" if _PLAIN.fullmatch(thread) else digest


class PrivateFileError(DetailedError, SkillsAgentError):
    """A folder or a file that must be this user's alone is not, or cannot be made."""

    sentence = "{path} {fault}, so the agent keeps nothing there. {advice}"
    path: Path
    fault: str
    advice: str


_ELSEWHERE: Final = "Set XDG_STATE_HOME to a folder of your own."


def make_private_folder(*folders: Path) -> Path:
    """Make folders that are this user's alone, each in the one before, and return the last.

    The folders above that are missing are made, too, and not checked. One that is there is: a link, another
    owner, or a mode that lets others write, raise PrivateFileError.
    """
    for folder in folders:
        _make_private(folder)
    return folders[-1]


def _make_private(folder: Path) -> None:
    try:
        for each in (*reversed(folder.parents), folder):
            if not os.path.lexists(each):
                with suppress(FileExistsError):
                    each.mkdir(mode=0o700)
        facts = folder.lstat()
        _check(folder, facts, is_right=stat.S_ISDIR(facts.st_mode))
        if facts.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise PrivateFileError(folder, f"cannot be used ({error.strerror})", _ELSEWHERE) from error


def _check(path: Path, facts: os.stat_result, *, is_right: bool) -> None:
    if not is_right:
        raise PrivateFileError(
            path, "is a link, or of another kind", "Move it away; the agent makes it anew."
        )
    if facts.st_uid != os.geteuid():
        raise PrivateFileError(path, "belongs to another user", f"Run as that user. Or: {_ELSEWHERE}")
    if facts.st_mode & 0o022:
        raise PrivateFileError(
            path, "can be written by other users", f"Look at what is in it, then: chmod go= {path}"
        )


def open_private(path: Path, flags: int) -> int:
    """Open a file of this user alone, and make it, with its folder where that is missing. Raises OSError.

    It looks at the folder only then, because every step calls this.
    """
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private_folder(path.parent)
        return os.open(path, flags, 0o600)


def open_sqlite(path: Path, isolation: Literal["DEFERRED"] | None = "DEFERRED") -> sqlite3.Connection:
    """Open an SQLite file of this user alone, and make it, in a folder that is this user's alone, too.

    What was committed survives the loss of power, and others read while one writes. On a disk that is full or
    cannot be written, a file that is there is opened to read, which `is_read_only` tells. Raises OSError,
    sqlite3.Error and PrivateFileError.
    """
    if os.path.lexists(path) and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return _open_to_read(path, isolation)
    make_private_folder(path.parent)
    try:
        os.close(open_private(path, os.O_RDWR | os.O_EXCL))
    except FileExistsError:
        # Not opened, because to close a file that SQLite has open in this process would drop its locks.
        facts = path.lstat()
        _check(path, facts, is_right=stat.S_ISREG(facts.st_mode))
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=isolation, check_same_thread=False
    )
    try:
        # FULL is not the default of every build of SQLite.
        connection.execute("PRAGMA synchronous = FULL")
        _write_ahead(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in _NO_ROOM:
            raise
        return _open_to_read(path, isolation)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_to_read(path: Path, isolation: Literal["DEFERRED"] | None) -> sqlite3.Connection:
    facts = path.lstat()
    _check(path, facts, is_right=stat.S_ISREG(facts.st_mode))
    log = path.with_name(f"{path.name}-wal")
    # Without a log SQLite would want to make one, but for a file that it is told nobody writes.
    is_whole = not log.exists() or log.stat().st_size == 0
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_whole else ''}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=isolation, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    return connection


def is_read_only(connection: sqlite3.Connection) -> bool:
    """Return whether `open_sqlite` opened a file to read alone."""
    return bool(connection.execute("PRAGMA query_only").fetchone()[0])


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let others read while one writes, and commit with one fsync.

    Switching it on needs the file for itself, and SQLite answers "database is locked" at once, whatever
    the timeout: of several first writers at a time, all but one try again.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Return True if another process has the file."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
