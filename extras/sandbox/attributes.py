"""Change the attributes of files for a confined program, where the files lie in a folder that it may write.

No rule of Landlock is about modes and times: a program could change those of every file whose owner is the
user. A filter of system calls sees no path, and without these calls nothing is installed or unpacked. So the
kernel asks (`broker.py`): the file is opened first, then it is seen where it lies, and then this process
changes what it opened. What the program does to the path meanwhile changes nothing.

Every argument is the program's, and hostile. Imported by `broker.py` alone, and importing next to nothing.
"""

import errno
import posix  # `os` would cost two milliseconds

from confined import system_call  # type: ignore[import-not-found]  # there are no packages here

TYPE_CHECKING = False
if TYPE_CHECKING:  # type checkers know the name: importing `typing` would cost as much as all the rest
    from collections.abc import Callable, Sequence

UTIMENSAT = {"x86_64": 280, "aarch64": 88}
AT_FDCWD, NOFOLLOW, EMPTY_PATH = -100, 0x100, 0x1000
PATH_MAX, PAGE = 4096, 4096
MODES = 0o1777
PLACES = {
    "chmod": (None, 0, 1, None),
    "fchmod": (0, None, 1, None),
    "fchmodat": (0, 1, 2, None),
    "fchmodat2": (0, 1, 2, 3),
    "utimensat": (0, 1, 2, 3),
}
"""The places of the arguments of each call: descriptor, path, value, flags."""


def change(
    pid: int,
    call: str,
    arguments: "Sequence[int]",
    written: "Sequence[bytes]",
    is_valid: "Callable[[], object]",
) -> None:
    """Do for a process what it asked for; raises OSError where it may not, or where the kernel refuses.

    `is_valid` raises OSError where the process is gone: its number may be another's then.
    """
    value = arguments[PLACES[call][2]]
    times = memory(pid, value, 32) if call == "utimensat" and value else 0
    opened = open_asked(pid, call, arguments)
    try:
        is_valid()
        path = b"/proc/self/fd/%d" % opened
        place = posix.readlink(path)
        if not any(place == each or place.startswith(each.rstrip(b"/") + b"/") for each in written):
            raise OSError(errno.EPERM, "it lies outside of what may be written")
        if call != "utimensat":
            posix.chmod(path, value & MODES)
        elif system_call(UTIMENSAT[posix.uname().machine], AT_FDCWD, path, times, 0):
            raise OSError(errno.EPERM, "the kernel refuses these times")
    finally:
        posix.close(opened)


def open_asked(pid: int, call: str, arguments: "Sequence[int]") -> int:
    """Open what a call names, with no right to read or write it."""
    directory, path, _, flags = PLACES[call]
    options = arguments[flags] if flags is not None else 0
    descriptor = AT_FDCWD if directory is None else signed(arguments[directory])
    base = f"/proc/{pid}/" + ("cwd" if descriptor == AT_FDCWD else f"fd/{descriptor}")
    name = b""
    if path is not None and arguments[path]:
        name = text(pid, arguments[path])
        if not name and not options & EMPTY_PATH:
            raise FileNotFoundError(errno.ENOENT, "no path")
    kind = posix.O_PATH | posix.O_CLOEXEC | (posix.O_NOFOLLOW if options & NOFOLLOW else 0)
    if name.startswith((b"/proc/self/", b"/dev/fd/")):  # their own, which here would be those of this process
        name = b"/proc/%d/" % pid + name.removeprefix(b"/proc/self/").removeprefix(b"/dev/")
    if name.startswith(b"/"):
        return posix.open(name, kind)
    start = posix.open(base, posix.O_PATH | posix.O_CLOEXEC)
    if not name:
        return start
    try:
        return posix.open(name, kind, dir_fd=start)
    finally:
        posix.close(start)


def text(pid: int, address: int) -> bytes:
    """Return a text of a process, without its NUL. Raises OSError."""
    found = b""
    while len(found) < PATH_MAX:
        left = PAGE - (address + len(found)) % PAGE  # the next page may be missing
        found += memory(pid, address + len(found), min(left, PATH_MAX - len(found)))
        if b"\0" in found:
            return found[: found.index(b"\0")]
    raise OSError(errno.ENAMETOOLONG, "a path without an end")


def memory(pid: int, address: int, size: int) -> bytes:
    """Return bytes of a process. Raises OSError."""
    opened = posix.open(f"/proc/{pid}/mem", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        found = posix.pread(opened, size, address)
    finally:
        posix.close(opened)
    if len(found) < size:
        raise OSError(errno.EFAULT, "bad address")
    return found


def signed(value: int) -> int:
    """Return what the kernel takes an argument of 32 bits for."""
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value
