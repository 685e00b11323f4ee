"""What a script wrote into its working directory."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.scripts.runner import WrittenFile

PASSED_OVER: Final = frozenset({".git", ".agent", ".venv", "node_modules", "__pycache__"})
MAX_LOOKED_AT: Final = 20_000
"""Names at most: about 60 ms."""


class Written(NamedTuple):
    """Files of a folder that changed since a moment."""

    files: tuple[WrittenFile, ...]
    more: int


def written_since(folder: Path, moment: int, limit: int) -> Written:
    """Return the files whose content or name changed since `moment`, in name order, `limit` at most.

    `moment` is a change time (st_ctime_ns) that the kernel gave: its clock is coarser than Python's,
    and no program can set it back. Deleted files are not noticed.
    """
    changed = sorted(
        (os.path.relpath(entry.path, folder), found.st_size)
        for entry in _files(folder)
        if (found := _look(entry)) and found.st_ctime_ns >= moment
    )
    return Written(tuple(WrittenFile(*each) for each in changed[:limit]), max(0, len(changed) - limit))


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield regular files, the folders nearest to the top first, following no link."""
    left = MAX_LOOKED_AT
    folders = [os.fspath(folder)]
    for each in folders:
        try:
            with os.scandir(each) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in PASSED_OVER:
                            folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry
        except OSError:  # gone, or not ours to read
            continue


def _look(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None
