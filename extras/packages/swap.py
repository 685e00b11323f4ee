"""A call of the system that Python lacks: exchange two names in one step."""

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


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names of one file system in one step; return False where the system cannot.

    By renameat2(2) of Linux and renamex_np(2) of macOS. Raises OSError for anything else that is wrong.
    """
    library: Any = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = library.renamex_np(*names, _RENAME_SWAP)
    elif hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    else:
        return False
    code = ctypes.get_errno()
    if failed and code not in _CANNOT:
        raise OSError(code, os.strerror(code), str(other))
    return not failed
