"""System calls of Linux for which Python has no function."""

import ctypes
import os
from functools import lru_cache


@lru_cache(maxsize=1)
def libc() -> ctypes.CDLL:
    """Return the C library that this process runs with."""
    return ctypes.CDLL(None, use_errno=True)


def checked(result: int, path: str | None = None) -> int:
    """Return what a system call gave; raises OSError for -1."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
