"""What only POSIX systems have: without it the package can be imported, and no graph can be built.

So a program for several systems can import it, and choose its agent later.
"""

import os

__all__ = ["MISSING", "fcntl", "flags", "pwd"]

MISSING = ""
"""The first module that this system lacks; empty where all are here."""

try:
    import fcntl
    import pwd
except ModuleNotFoundError as error:
    MISSING = error.name or ""


def flags(*names: str) -> int:
    """Return what `os.open` calls these flags, together; a system that is no POSIX system lacks some."""
    together = 0
    for name in names:
        together |= getattr(os, name, 0) if MISSING else getattr(os, name)
    return together
