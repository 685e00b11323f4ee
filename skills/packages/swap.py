"""Put one folder in the place of another in one step, where the system can: no moment without either."""

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Any, Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_RENAME_SWAP: Final = 2
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What a file system answers that cannot exchange two names."""


def swap(one: Path, other: Path) -> None:
    """Exchange two folders of one file system. Raises OSError.

    renameat2(2) of Linux and renamex_np(2) of macOS do it at once. Elsewhere there is a moment without
    `other`: whoever is interrupted in it finds the three names that tell how to go on.
    """
    try:
        _exchange(os.fsencode(one), os.fsencode(other))
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        between = one.with_name(f"{one.name}.between")
        other.rename(between)
        one.rename(other)
        between.rename(one)


def _exchange(one: bytes, other: bytes) -> None:
    library: Any = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        done = library.renamex_np(one, other, _RENAME_SWAP)
    elif hasattr(library, "renameat2"):
        done = library.renameat2(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if done:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(other))
