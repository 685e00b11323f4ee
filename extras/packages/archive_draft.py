"""The file that an archive is written to before it has its name, and what a killed process left of such."""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills import posix
from skills_agent.skills.posix import flags

_NAME: Final = re.compile(r"\.packing-[0-9a-f]{16}")
_READ: Final = flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")


class ArchiveDraft(NamedTuple):
    """An archive that is being written."""

    place: Path
    file: BufferedRandom


@contextmanager
def archive_draft(folder: Path) -> Iterator[ArchiveDraft]:
    """Give an empty file in a folder; it is removed in the end, if it has no other name. Raises OSError.

    So are those of processes that were killed: whoever writes one holds a lock on it.
    """
    for name in os.listdir(folder):  # noqa: PTH208 - names
        if _NAME.fullmatch(name):
            with suppress(OSError):
                _remove_left(folder / name)
    is_held = False
    while not is_held:
        place = folder / f".packing-{secrets.token_hex(8)}"
        with place.open("xb+") as file:
            try:
                with suppress(OSError):  # a network file system may have no locks
                    posix.fcntl.flock(file, posix.fcntl.LOCK_EX)
                is_held = os.path.lexists(place)  # nobody has taken it for a left one before it was locked
                if is_held:
                    yield ArchiveDraft(place, file)
            finally:
                place.unlink(missing_ok=True)


def _remove_left(place: Path) -> None:
    """Remove a draft of this user that nobody writes. Raises OSError for one that somebody does."""
    descriptor = os.open(place, _READ)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX | posix.fcntl.LOCK_NB)
            place.unlink()
    finally:
        os.close(descriptor)
