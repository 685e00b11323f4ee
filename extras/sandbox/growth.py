"""How much a run adds to the disk. The kernel has no limit for it that an ordinary user could set.

What the file system has lost since the start costs one system call to know, so it is looked at all the time.
Only when that is over a limit is it found out whose it is: others write, too. So a script that writes
quickly is over by what it writes between two looks, and while its files are counted.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from skills_agent.skills.confined import outermost
from skills_agent.skills.scripts.run_folders import BLOCK_BYTES, DiskUse
from skills_agent.skills.scripts.runner import Stop

WHOEVER_WROTE: Final = 4
"""So many times a limit ends a run also where nothing shows that it was the one: a script can hide files."""


class Growth:
    """What the file systems of folders lost since a moment, and whether the processes of a run did it."""

    def __init__(self, folders: Iterable[Path], moment: int, limit: DiskUse) -> None:
        """Begin; `moment` as in `files_since`. The limit is for all folders together."""
        real = {*map(os.path.realpath, folders)}
        self._folders = outermost(real)
        self._is_root = os.sep in self._folders
        """Then all programs of the machine write there, and all that is mounted is beneath."""
        self._moment, self._limit = moment, limit
        by_device = {os.stat(folder).st_dev: folder for folder in real}  # noqa: PTH116
        self._starts = {device: (each, os.statvfs(each)) for device, each in by_device.items()}
        self._next_look = limit

    def exceeded(self, family: Callable[[], Iterable[int]]) -> Stop | None:
        """Return the limit that the run is over, if it is; `family` returns its processes."""
        lost = self._lost()
        if stop := _over(lost, DiskUse(*(WHOEVER_WROTE * each for each in self._limit))):
            return stop
        if not _over(lost, self._next_look):
            return None
        # If somebody else wrote it, the next look is worth it when there is more.
        self._next_look = DiskUse(*(n + most // 4 for n, most in zip(lost, self._limit, strict=True)))
        return _over(lost, self._limit) if self._is_written_by(family()) else None

    def _lost(self) -> DiskUse:
        size = files = 0
        for folder, start in self._starts.values():
            now = os.statvfs(folder)
            size += (start.f_bfree - now.f_bfree) * now.f_frsize
            files += start.f_ffree - now.f_ffree
        return DiskUse(size, files)

    def _is_written_by(self, pids: Iterable[int]) -> bool:
        if sum(map(bytes_written_by, pids)) > self._limit.bytes:
            return True
        size = count = 0
        for status in self._changed():
            if status is None:  # it hides something
                return True
            size, count = size + status.st_blocks * BLOCK_BYTES, count + 1
            if _over(DiskUse(size, count), self._limit):
                return True
        return False

    def _changed(self) -> Iterator[os.stat_result | None]:
        """Yield what has changed since; None for a folder that has, and that cannot be listed."""
        folders = [*self._folders]
        for path in folders:
            try:
                with os.scandir(path) as entries:
                    for entry in entries:
                        status = entry.stat(follow_symlinks=False)
                        if self._is_of_run(status):
                            yield status
                        # In `/`, what is mounted, as /proc, lost nothing of what is watched. Elsewhere it may
                        # be a subvolume, which a script can make: it has the room of its folder.
                        is_near = not self._is_root or status.st_dev in self._starts
                        if is_near and stat.S_ISDIR(status.st_mode):
                            folders.append(entry.path)
            except FileNotFoundError:
                continue
            except OSError:  # its mode, or a path too long for the system
                if self._may_hide(path):
                    yield None

    def _is_of_run(self, status: os.stat_result) -> bool:
        """Return whether something changed since, and in the root folder whether it is this user's."""
        is_own = not self._is_root or status.st_uid == os.geteuid()
        return is_own and status.st_ctime_ns >= self._moment

    def _may_hide(self, path: str) -> bool:
        try:
            return self._is_of_run(os.lstat(path))
        except OSError as error:
            return not isinstance(error, FileNotFoundError)


def _over(written: DiskUse, limit: DiskUse) -> Stop | None:
    if written.bytes > limit.bytes:
        return "bytes"
    return "files" if written.files > limit.files else None


def bytes_written_by(pid: int) -> int:
    """Return the bytes that a living process has written to disks, and not taken back."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    counts = {name: int(number) for name, _, number in (line.partition(":") for line in lines)}
    return counts.get("write_bytes", 0) - counts.get("cancelled_write_bytes", 0)
