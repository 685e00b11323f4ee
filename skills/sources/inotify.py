"""Know without looking whether anything in some folders has changed: Linux' inotify, read when asked.

The kernel puts an event into the queue within the very system call that makes a change. Whoever finds the
queue empty knows that nothing has happened: no thread listens, and no event comes late.
"""

import ctypes
import os
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from errno import ENOTSUP
from select import POLLIN, POLLPRI, poll
from typing import Final

from skills_agent.skills.sources.protocol import FolderState

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
"""Python has no functions for inotify and statfs."""
_FOLDER_EVENTS: Final = 0x4 | 0x40 | 0x80 | 0x100 | 0x200
"""Attributes, moved from, moved to, created, deleted: what is written into other files changes no scan."""
_FILE_EVENTS: Final = 0x2 | 0x4 | 0x8
"""Modified, attributes, and closed: that comes when writing through a mapping ends."""
_READ_AT_ONCE: Final = 65_536
"""Bytes of events. Those that are left count the next time."""

_LOCAL: Final = {
    0xCA451A4E: "bcachefs",
    0x9123683E: "btrfs",
    0xEF53: "ext2, ext3, ext4",
    0xF2F52010: "f2fs",
    0x794C7630: "overlay",
    0x01021994: "tmpfs",
    0x58465342: "xfs",
    0x2FC12FC1: "zfs",
}
"""File systems that nobody changes but through this kernel, by the number that statfs gives."""
_STATFS_BYTES: Final = 512
"""More than the structure has on any architecture; the type is its first field, a long."""


class FolderWatch:
    """Knows of what happens in the folders of a scan and to the SKILL.md in each; for one thread at a time.

    Each SKILL.md is watched besides its folder, which hears nothing of a change through another hard link.
    """

    def __init__(self, root: str, folders: Sequence[FolderState]) -> None:
        """Begin to watch the folders that a walk from the root has found.

        Raises OSError where changes may come about unnoticed (ENOTSUP: a file system of another machine or
        process) and where the user has no watch or descriptor left.
        """
        self._root = root
        self._process = os.getpid()
        self._is_new = True
        self.is_lost = False
        """The root is another folder, something was mounted, or the events are those of a parent process."""
        with ExitStack() as opened:
            # The mounts first: what is mounted over one of the folders is no event of inotify.
            self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY)
            opened.callback(os.close, self._mounts)
            self._queue = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            opened.callback(os.close, self._queue)
            self._place = _place(self._root)
            for folder in folders:
                self._add(folder)
            weakref.finalize(self, opened.pop_all().close)
        self._poll = poll()
        self._poll.register(self._queue, POLLIN)
        self._poll.register(self._mounts, POLLPRI)

    def has_news(self) -> bool:
        """Return whether anything may have happened since this was asked before, or nobody asked yet."""
        self.is_lost |= os.getpid() != self._process or _place(self._root) != self._place
        if self.is_lost:
            return True
        news, self._is_new = self._is_new, False
        for descriptor, _ in self._poll.poll(0):
            news = True
            if descriptor == self._queue:
                os.read(self._queue, _READ_AT_ONCE)
            else:
                self.is_lost = True
        return news

    def _add(self, folder: FolderState) -> None:
        path = os.fsencode(folder.path)
        if _file_system(path) not in _LOCAL:
            raise OSError(ENOTSUP, "changes may come from elsewhere on this file system", folder.path)
        _checked(_LIBC.inotify_add_watch(self._queue, path, _FOLDER_EVENTS), folder.path)
        if folder.skill is not None:
            file = os.fsencode(folder.skill.path)
            _checked(_LIBC.inotify_add_watch(self._queue, file, _FILE_EVENTS), folder.skill.path)


def _checked(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def _file_system(path: bytes) -> int:
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    _checked(_LIBC.statfs(path, status), os.fsdecode(path))
    return ctypes.c_long.from_buffer(status).value & 0xFFFFFFFF


def _place(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)  # noqa: PTH116 - once for each look
    except OSError:
        return None
    return status.st_dev, status.st_ino
