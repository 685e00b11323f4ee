"""What only POSIX systems have: without it the package can be imported, and no graph can be built.

So a program for several systems can import it, and choose its agent later.
"""

import os

__all__ = ["FILE", "FILE_OR_LINK", "FOLDER", "FOLDER_OR_LINK", "MISSING", "NEW_FILE", "fcntl", "pwd"]

MISSING = ""
"""The first module that this system lacks; empty where all are here."""

try:
    import fcntl
    import pwd
except ModuleNotFoundError as error:
    MISSING = error.name or ""

FOLDER_OR_LINK = FOLDER = FILE_OR_LINK = FILE = NEW_FILE = 0
"""Flags of `os.open`: a link is followed only where the name says so, a FIFO is not waited for."""

if not MISSING:
    FOLDER_OR_LINK = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    FOLDER = FOLDER_OR_LINK | os.O_NOFOLLOW
    FILE_OR_LINK = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    FILE = FILE_OR_LINK | os.O_NOFOLLOW
    NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
