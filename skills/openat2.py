"""Open a path beneath a folder in one system call that follows no link: openat2 (Linux 5.6).

Python has no function for it. It is faster than one open for each part of a path, and the kernel itself
keeps to the folder.
"""

import ctypes
import os
import sys
from functools import lru_cache
from typing import Final

from skills_agent.skills.libc import checked, libc

NUMBER: Final = 437
"""Of the system call, on every architecture but Alpha."""
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
HERE: Final = sys.platform == "linux" and os.uname().machine != "alpha"


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def openat2(folder: int, path: str, flags: int) -> int:
    """Return a descriptor of `path` beneath the open folder.

    Raises OSError: ELOOP for a link on the way, EXDEV for a way out, ENOSYS where there is no such call.
    """
    how = _OpenHow(flags, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    descriptor: int = libc().syscall(
        NUMBER, folder, ctypes.c_char_p(os.fsencode(path)), ctypes.byref(how), ctypes.sizeof(how)
    )
    return checked(descriptor, path)


@lru_cache(maxsize=1)
def has_openat2() -> bool:
    """Tell whether this kernel has it and nothing forbids it (old container runtimes do): by trying."""
    if not HERE:
        return False
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(openat2(root, ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(root)
