"""What a skill's folder holds, as one digest: it differs when any byte that could be run or read differs."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from skills_agent.skills.errors import SkillError
from skills_agent.skills.files import OutsideRootError, is_beneath, open_beneath

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 64 * 1024 * 1024
_PIECE: Final = 1 << 20


class ContentsError(SkillError):
    """A folder whose content cannot be pinned down: too large, unreadable, or with links that lead out."""

    code: ClassVar[str] = "contents-unclear"

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(f"The content of {folder} cannot be pinned down: {reason}.")


class _File(NamedTuple):
    relative: str
    mark: str
    """`x` or `-` for a file that is executable or not; for a link, where it leads."""
    is_link: bool = False


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 (hex) of every path, executable bit and byte beneath a folder.

    Nothing is left out, caches and hidden files included: whatever is there can be run. A link counts by
    where it leads, and may lead to places in the folder only. Raises ContentsError.
    """
    whole = hashlib.sha256()
    left = MAX_BYTES
    try:
        for file in sorted(_files(folder)):
            content = hashlib.sha256()
            if not file.is_link:
                left -= _read_into(content, folder, file.relative, left)
            names = (os.fsencode(text).hex() for text in (file.relative, file.mark))
            whole.update(f"{content.hexdigest()} {' '.join(names)}\n".encode())
    except OutsideRootError as error:
        raise ContentsError(folder, f"{error.path} is a link that leads out of it") from error
    except OSError as error:
        raise ContentsError(folder, error.strerror or type(error).__name__) from error
    return whole.hexdigest()


def file_digest(folder: Path, relative: str) -> str:
    """Return the SHA-256 (hex) of one file beneath a folder. Raises ContentsError."""
    content = hashlib.sha256()
    try:
        _read_into(content, folder, relative, MAX_BYTES)
    except OSError as error:
        raise ContentsError(folder, f"{relative}: {error.strerror or type(error).__name__}") from error
    return content.hexdigest()


def _files(folder: Path) -> Iterator[_File]:
    waiting = [""]
    found = 0
    while waiting:
        prefix = waiting.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                found += 1
                if found > MAX_FILES:
                    raise ContentsError(folder, f"more than {MAX_FILES:,} files")
                relative = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{relative}/")
                    continue
                if entry.is_symlink():
                    if not is_beneath(folder, Path(entry.path)):
                        raise OutsideRootError(relative)
                    yield _File(relative, os.fspath(Path(entry.path).readlink()), is_link=True)
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                yield _File(relative, "x" if mode & stat.S_IXUSR else "-")


def _read_into(digest: "hashlib._Hash", folder: Path, relative: str, limit: int) -> int:
    read = 0
    with os.fdopen(open_beneath(folder, relative), "rb") as file:
        while piece := file.read(_PIECE):
            read += len(piece)
            if read > limit:
                raise ContentsError(folder, f"more than {MAX_BYTES:,} bytes")
            digest.update(piece)
    return read
