"""Files of the agent beside a person's own: only this user can read them, and git ignores them."""

import errno
import hashlib
import os
import re
import sqlite3
import time
from pathlib import Path
from typing import Final, Literal

BUSY_SECONDS: Final = 30
"""How long a writer waits for another process."""
_RETRY_SECONDS: Final = 0.05
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def folder_name(thread: str) -> str:
    """Return a name for a thread's folder; a client chooses the thread's id, so it may be any text.

    The digest keeps names apart that differ in case only, where a file system does not.
    """
    digest = hashlib.sha256(thread.encode(errors="replace")).hexdigest()
    return f"{thread}.{digest[:8]}" if _PLAIN.fullmatch(thread) else digest


def open_private(path: Path, flags: int, *, folder_mode: int = 0o777) -> int:
    """Open a file of this user alone, and make it; where its folder is missing, one that git ignores whole.

    It looks into the folder only then, because every step calls this. Raises OSError.
    """
    flags |= os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True, mode=folder_mode)
        ignore_in_git(path.parent, "*")
        return os.open(path, flags, 0o600)


def open_sqlite(path: Path, isolation: Literal["DEFERRED"] | None = "DEFERRED") -> sqlite3.Connection:
    """Open an SQLite file of this user alone, and make it.

    What was committed survives the loss of power, and others read while one writes. Raises OSError and
    sqlite3.Error.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    ignore_in_git(path.parent, f"/{path.name}*")
    # Touched, because to open and close a file that SQLite has open in this process would drop its locks.
    path.touch(mode=0o600)
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=isolation, check_same_thread=False
    )
    try:
        # FULL is not the default of every build of SQLite.
        connection.execute("PRAGMA synchronous = FULL")
        _write_ahead(connection)
    except BaseException:
        connection.close()
        raise
    return connection


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


def ignore_in_git(folder: Path, pattern: str) -> None:
    """Add a pattern to the folder's .gitignore, unless it is there.

    A link of that name is left alone: the workspace may come from somebody else, and so does its target.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open(folder / ".gitignore", flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return
    with os.fdopen(opened, "r+", encoding="utf-8") as file:
        text = file.read()
        if pattern not in text.splitlines():
            file.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{pattern}\n")
