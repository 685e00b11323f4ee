"""What a run wrote: the change list of the upper folder of an overlay, and a diff of one change.

The overlay is mounted in a user namespace (`userxattr`): a removed path is a character device 0,0 in the
upper folder, and a folder that was removed and made again has the attribute `user.overlay.opaque`. A script
can make neither: the kernel refuses it the device, and keeps its `user.overlay.*` under other names (before
Linux 6.7, it refuses them). `trusted.overlay.*` is of overlays that are mounted otherwise, and not read.
"""

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final, TypeVar

from skills_agent.skills.confined import opened_folder, read_beneath
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.posix import FILE, FOLDER
from skills_agent.skills.scripts.changes import MAX_CHANGES, Act, Change, Kind
from skills_agent.skills.text_diff import diff, lines_of, text_of
from skills_agent.skills.trees import give_rights

MAX_DEPTH: Final = 200
"""Folders in one another that a run wrote in: of each level, two are open at once."""
MAX_PATH: Final = 3_500
"""Bytes of a changed path: it stays one that programs can open, wherever the folder is."""
MAX_BYTES: Final = 4 << 30
"""Of all files that are read for their digest. Holes count, which take no room on the disk."""
MAX_COMPARED: Final = 1_000_000
"""Bytes of a file of which a diff is shown."""
TOO_LARGE: Final = "it is too large"
"""Why something is no part of a copy."""
_OPAQUE: Final = "user.overlay.opaque"
NO_FOLDER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What is said of a path on whose way something is no folder."""
_PIECE: Final = 1 << 16
D = TypeVar("D", bound=int | None)
_EXECUTES: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


@dataclass(frozen=True)
class Layer:
    """A real folder, and what a run wrote over it. All processes of the run are dead when it is looked at."""

    lower: Path
    """The real folder, links resolved."""
    content: Path
    """The folder with the new bytes, at the same relative paths: the upper one of an overlay, or a copy."""
    moment: int
    """When the run began, by the clock of the file system (`st_ctime_ns`): what changed later in the real
    folder, somebody else changed."""
    before: Mapping[str, os.stat_result] | None = field(default=None, compare=False)
    """Of a copy, what was `seen` in it when the run began; None for an overlay."""
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Of a copy, the paths that are no part of it, and why; empty for those that never are."""

    @property
    def view(self) -> Path:
        """Return the folder that a run sees in the place of the real one; an overlay is mounted there."""
        return self.content.parent / "merged" if self.before is None else self.content


def changes(layer: Layer) -> list[Change]:
    """Return what the run changed: a folder before what is in it, what was removed before what came there.

    It costs what was written, however large the real folder is; nothing is reached through a link. A file
    with the bytes and bits that it had is no change. Where one kind of thing became another, that is two
    changes: one removed, one added. This user gets the rights to all that the script wrote; `Change.mode` has
    the bits as the script left them.

    Raises ScriptError for more than can be looked at (changes, bytes, folders in one another, long paths),
    and for what cannot be read.
    """
    found = ChangeList()
    try:
        with opened_folder(layer.content) as content, opened_folder(layer.lower) as lower:
            _look(found, (), content, lower)
    except OSError as error:
        raise not_compared(layer.lower, error) from error
    return found.changes


class ChangeList:
    """Changes as a look finds them, as many as can be looked at: else it raises ScriptError."""

    def __init__(self, *, is_bounded: bool = True) -> None:
        self.changes: list[Change] = []
        self._bytes, self._is_bounded = 0, is_bounded

    def is_now(self, path: str, act: Act, status: os.stat_result, folder: int) -> Change:
        """Return what is at a path now, the last part of it in an open folder. Raises OSError."""
        kind, name = kind_of(status.st_mode), path.rpartition("/")[2]
        change = Change(path, act, kind, mode=stat.S_IMODE(status.st_mode))
        if kind == "link":
            return change._replace(target=os.readlink(name, dir_fd=folder))
        if kind not in {"file", "executable"}:
            return change
        self._bytes += status.st_size
        if self._bytes > MAX_BYTES:
            raise too_much(f"files of more than {MAX_BYTES >> 30} GiB")
        with opened(name, folder, status) as file:
            return change._replace(size=status.st_size, digest=digest_of(file))

    def remove(self, path: str, before: os.stat_result | None) -> None:
        """Add what was removed, if something was: else somebody else removed it, too."""
        if before:
            size = before.st_size if stat.S_ISREG(before.st_mode) else 0
            self.add(Change(path, "removed", kind_of(before.st_mode), size))

    def add(self, change: Change) -> None:
        """Add a change."""
        if self._is_bounded and len(self.changes) >= MAX_CHANGES:
            raise too_much(f"more than {MAX_CHANGES:,} changes")
        if self._is_bounded and len(os.fsencode(change.path)) > MAX_PATH:
            raise too_much(f"a path of more than {MAX_PATH:,} bytes")
        self.changes.append(change)


def _look(found: ChangeList, parts: tuple[str, ...], content: int, lower: int | None) -> None:
    """Add what changed in a folder. Where there was none before, `lower` is None."""
    names = sorted(os.listdir(content))
    if len(parts) >= MAX_DEPTH and names:
        raise too_much(f"more than {MAX_DEPTH} folders in one another")
    for name in names:
        _look_at(found, (*parts, name), content, lower)
    if lower is not None and _is_opaque(content):
        for name in sorted({*os.listdir(lower)}.difference(names)):  # noqa: PTH208 - by its descriptor
            found.remove("/".join((*parts, name)), _status(name, lower))


def _look_at(found: ChangeList, parts: tuple[str, ...], content: int, lower: int | None) -> None:
    path, name = "/".join(parts), parts[-1]
    now, before = os.lstat(name, dir_fd=content), _status(name, lower)
    if stat.S_ISCHR(now.st_mode) and now.st_rdev == 0:
        found.remove(path, before)
        return
    if before and stat.S_IFMT(before.st_mode) != stat.S_IFMT(now.st_mode):
        found.remove(path, before)
        before = None
    beside = lower if before else None
    change = found.is_now(path, "changed" if before else "added", now, content)
    if not (before and is_same(change, before, beside)):
        found.add(change)
    if change.kind == "folder":
        with opened(name, content, now) as inner, _opened_lower(name, beside) as below:
            _look(found, parts, inner, below)


def too_much(what: str) -> ScriptError:
    """Return the error of a look that finds more than it can look at."""
    return ScriptError(
        f"What the run wrote cannot be looked at: it made {what}. Have it make less at a time."
    )


def not_compared(folder: Path, error: OSError) -> ScriptError:
    """Return the error of a look that the system refuses something."""
    return ScriptError(f"What the run wrote cannot be compared with {folder} ({error}).")


def kind_of(mode: int) -> Kind:
    """Return what a path is, by its `st_mode`."""
    if stat.S_ISREG(mode):
        return "executable" if mode & _EXECUTES else "file"
    return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "special"


def _status(name: str, folder: int | None) -> os.stat_result | None:
    if folder is not None:
        with suppress(FileNotFoundError):
            return os.lstat(name, dir_fd=folder)
    return None


def is_same(change: Change, before: os.stat_result, lower: int | None) -> bool:
    """Return whether a thing of the same kind was there, in the folder `lower`, with its content and bits.

    What cannot be read any more is not the same: somebody changes it just now, or nobody may read it.
    """
    name = change.path.rpartition("/")[2]
    with suppress(OSError):
        if change.kind == "link":
            return os.readlink(name, dir_fd=lower) == change.target
        if change.mode != stat.S_IMODE(before.st_mode):
            return False
        if change.kind not in {"file", "executable"}:
            return True
        if change.size != before.st_size:
            return False
        with closed_after(os.open(name, FILE, dir_fd=lower)) as file:
            return digest_of(file) == change.digest
    return False


def _is_opaque(folder: int) -> bool:
    """Return whether what the real folder holds beside is removed."""
    with suppress(AttributeError, OSError):  # macOS has no overlays
        return os.getxattr(folder, _OPAQUE) == b"y"
    return False


@contextmanager
def opened(name: str, folder: int, status: os.stat_result) -> Iterator[int]:
    """Yield a descriptor of a file or folder, after this user got the rights to read it. Raises OSError."""
    is_folder = stat.S_ISDIR(status.st_mode)
    needed = stat.S_IRUSR | (stat.S_IXUSR if is_folder else 0)
    is_given = status.st_mode & needed != needed and status.st_uid == os.geteuid() != 0
    if is_given and is_folder:
        give_rights(folder, name)
    elif is_given and not hasattr(os, "O_PATH"):  # macOS, where this follows no link; Linux has no such call
        os.chmod(name, stat.S_IMODE(status.st_mode) | needed, dir_fd=folder, follow_symlinks=False)
    elif is_given:
        with closed_after(os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)) as file:
            Path(f"/proc/self/fd/{file}").chmod(stat.S_IMODE(status.st_mode) | needed)
    with closed_after(os.open(name, FOLDER if is_folder else FILE, dir_fd=folder)) as descriptor:
        yield descriptor


@contextmanager
def _opened_lower(name: str, lower: int | None) -> Iterator[int | None]:
    """Yield a descriptor of a real folder, or None where there is none (any more)."""
    try:
        descriptor = None if lower is None else os.open(name, FOLDER, dir_fd=lower)
    except OSError as error:
        if error.errno not in NO_FOLDER:
            raise
        descriptor = None
    with closed_after(descriptor):
        yield descriptor


@contextmanager
def closed_after(descriptor: D) -> Iterator[D]:
    """Yield a descriptor, if there is one, and close it when the block ends."""
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def digest_of(file: int) -> str:
    """Return the SHA-256 of a file that was just opened; a small one takes no buffer of its own."""
    start = os.read(file, _PIECE)
    if len(start) < _PIECE:
        return sha256(start).hexdigest()
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", buffering=0, closefd=False) as stream:
        return file_digest(stream, "sha256").hexdigest()


def start_of(layer: Layer, change: Change, limit: int) -> bytes:
    """Return the first bytes of a file as it is now. Raises OSError."""
    return read_beneath(layer.content, change.path, limit, follow=False)


def diff_of(layer: Layer, change: Change) -> str:
    """Return a change for a person: a unified diff without its head, else a sentence, as it is in the files.

    It says what no diff can show: what is no text, or large; where a link leads; bits that changed.
    """
    if change.kind == "link":
        return f"link to {change.target}" if change.act != "removed" else "link"
    if change.kind in {"folder", "special"}:
        is_only_bits = change.kind == "folder" and change.act == "changed"
        return f"folder, its mode is {change.mode:o} now" if is_only_bits else change.kind
    before = b"" if change.act == "added" else read_whole(layer.lower, change.path)
    after = b"" if change.act == "removed" else read_whole(layer.content, change.path)
    if before is not None and before == after:
        return f"its mode is {change.mode:o} now" if change.act == "changed" else "empty"
    texts = [None if each is None else text_of(each) for each in (before, after)]
    if texts[0] is None or texts[1] is None:
        is_large = before is None or after is None
        return f"{'large' if is_large else 'binary'}, {change.size:,} bytes"
    return diff(texts[0], texts[1])


def with_lines(layer: Layer, change: Change) -> Change:
    """Return a change with the lines of text that it adds; those of a large file are not counted."""
    if change.kind not in {"file", "executable"} or change.act == "removed":
        return change
    before = b"" if change.act == "added" else read_whole(layer.lower, change.path)
    after = read_whole(layer.content, change.path)
    if before is None or after is None:
        return change
    old, new = (Counter(lines_of(text_of(raw) or "")) for raw in (before, after))
    return change._replace(lines=(new - old).total())


def read_whole(root: Path, path: str) -> bytes | None:
    """Return what a file holds; None for a large one, and one that is not there any more."""
    with suppress(OSError):
        raw = read_beneath(root, path, MAX_COMPARED + 1, follow=False)
        return raw if len(raw) <= MAX_COMPARED else None
    return None
