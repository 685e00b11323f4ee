"""What a run wrote: the change list of the upper folder of an overlay, and a diff of one change.

The overlay is mounted in a user namespace (`userxattr`): a removed path is a character device 0,0 in the
upper folder, and a folder that was removed and made again has the attribute `user.overlay.opaque`. A script
can make neither: the kernel refuses it the device, and keeps its `user.overlay.*` under other names (before
Linux 6.7, it refuses them). `trusted.overlay.*` is of overlays that are mounted otherwise, and not read.
"""

import os
import stat
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final

from skills_agent.sandbox.run_folder import shown
from skills_agent.sandbox.scan import (
    Entry,
    Folders,
    Seen,
    closed_after,
    is_touched,
    open_with_rights,
    scan,
    telling,
    too_much,
)
from skills_agent.sandbox.translated import replacement, translate_file
from skills_agent.skills.confined import open_beneath, read_at_most
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.posix import FILE
from skills_agent.skills.scripts.changes import MAX_CHANGES, Act, Change, Kind
from skills_agent.skills.text_diff import diff, lines_of, text_of
from skills_agent.skills.trees import open_up

MAX_PATH: Final = 3_500
"""Bytes of a changed path: it stays one that programs can open, wherever the folder is."""
MAX_BYTES: Final = 4 << 30
"""Of all files that are read for their digest. Holes count, which take no room on the disk."""
MAX_COMPARED: Final = 1_000_000
"""Bytes of a file of which a diff is shown."""
TOO_LARGE: Final = "it is too large"
"""Why something is no part of a copy."""
_OPAQUE: Final = "user.overlay.opaque"
_PIECE: Final = 1 << 16
_EXECUTES: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
Touched = Mapping[str, os.stat_result | None]


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
    before: Mapping[str, Seen] | None = field(default=None, compare=False)
    """Of a copy, what was in it when the run began; None for an overlay."""
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Of a copy, the paths that are no part of it, and why; empty for those that never are."""
    originals: Path | None = field(default=None, compare=False)
    """Where `lower` has the changes already, copies of what was there, of what somebody is asked about."""
    real: Mapping[str, Seen] = field(default_factory=dict, compare=False)
    """Of a copy, what was seen of the real folder, as far as it may be told by it that nothing changed."""

    @property
    def view(self) -> Path:
        """Return the folder that a run sees in the place of the real one; an overlay is mounted there."""
        return self.content.parent / "merged" if self.before is None else self.content

    @property
    def large(self) -> list[str]:
        """Return what is no part of a copy because it is too large."""
        return [path for path, why in self.left_out.items() if why == TOO_LARGE]


def changes(layer: Layer, touched: Touched | None = None) -> list[Change]:
    """Return what the run changed: a folder before what is in it, what was removed before what came there.

    It costs what was written, however large the real folder is; nothing is reached through a link. A file
    with the bytes and bits that it had is no change. Where one kind of thing became another, that is two
    changes: one removed, one added. This user gets the rights to all that the script wrote; `Change.mode` has
    the bits as the script left them. `touched`: what `touched_in` returned of a copy.

    Raises ScriptError for more than can be looked at (changes, bytes, folders in one another, long paths),
    and for what cannot be read.
    """
    found = ChangeList()
    try:
        if not os.access(layer.content, os.R_OK | os.X_OK):
            open_up(os.fspath(layer.content))
        if layer.before is None:
            _look_over(found, layer)
        else:
            _look_in_copy(found, layer, layer.before, touched_in(layer) if touched is None else touched)
    except OSError as error:
        raise ScriptError(f"What the run wrote cannot be compared with {layer.lower} ({error}).") from error
    return found.changes


class ChangeList:
    """Changes as a look finds them, as many as can be looked at: else it raises ScriptError."""

    def __init__(self, *, is_bounded: bool = True) -> None:
        self._changes: list[Change] = []
        self._bytes, self._is_bounded = 0, is_bounded

    def is_now(
        self, path: str, act: Act, status: os.stat_result, folder: int, *, is_read: bool = True
    ) -> Change:
        """Return what is at a path now, the last part of it in an open folder. Raises OSError."""
        kind, name = kind_of(status.st_mode), path.rpartition("/")[2]
        size = status.st_size if kind in {"file", "executable"} else 0
        digest = target = ""
        if kind == "link":
            target = os.readlink(name, dir_fd=folder)
        elif is_read and kind in {"file", "executable"}:
            self._bytes += size
            if self._bytes > MAX_BYTES:
                raise too_much(f"files of more than {MAX_BYTES >> 30} GiB")
            with closed_after(open_with_rights(name, folder, status)) as file:
                digest = digest_of(file)
        return Change(path, act, kind, size, digest, target, stat.S_IMODE(status.st_mode))

    def compare(
        self,
        path: str,
        before: os.stat_result | Seen | None,
        now: os.stat_result,
        folder: int,
        lower: int | None,
        *,
        is_read: bool = True,
    ) -> None:
        """Add what is at a path in an open folder now, if it is not what was there, in the folder `lower`.

        Where one kind of thing became another, both are added. A file that is not read is another one.
        Raises OSError for what cannot be read.
        """
        is_alike = before and stat.S_IFMT(before.st_mode) == stat.S_IFMT(now.st_mode)
        change = self.is_now(path, "changed" if is_alike else "added", now, folder, is_read=is_read)
        if not is_alike:
            self.remove(path, before)
        if not (before and is_alike and lower is not None and is_same(change, before, lower)):
            self.add(change)

    def remove(self, path: str, before: os.stat_result | Seen | None) -> None:
        """Add what was removed, if something was: else somebody else removed it, too."""
        if before:
            size = before.st_size if stat.S_ISREG(before.st_mode) else 0
            self.add(Change(path, "removed", kind_of(before.st_mode), size))

    def add(self, change: Change) -> None:
        """Add a change."""
        if self._is_bounded and len(self._changes) >= MAX_CHANGES:
            raise too_much(f"more than {MAX_CHANGES:,} changes")
        if self._is_bounded and len(os.fsencode(change.path)) > MAX_PATH:
            raise too_much(f"a path of more than {MAX_PATH:,} bytes")
        self._changes.append(change)

    @property
    def changes(self) -> list[Change]:
        """Return them: a folder before what is in it, what was removed before what came in its place."""
        return sorted(self._changes, key=lambda change: change.path.split("/"))


def _look_over(found: ChangeList, layer: Layer) -> None:
    """Add what changed by what an overlay has written."""
    opaque: set[str] = set()
    with closing(Folders(layer.lower)) as lowers:
        for path, folder, inner in scan(layer.content, enters=_with_rights, is_strict=True):
            place = lowers.find(f"{path}/" if path else "")
            lower = place.folder if place else None
            for here, now in inner.items():
                before = _status(here.rpartition("/")[2], lower)
                if stat.S_ISCHR(now.st_mode) and now.st_rdev == 0:
                    found.remove(here, before)
                else:
                    found.compare(here, before, now, folder, lower)
            # In one that was made anew, others were, and have no mark of their own.
            if os.path.dirname(path) in opaque or _is_opaque(folder):  # noqa: PTH120
                opaque.add(path)
                for name in os.listdir(lower) if lower is not None else ():  # noqa: PTH208 - its descriptor
                    if (gone := f"{path}/{name}".lstrip("/")) not in inner:
                        found.remove(gone, _status(name, lower))


def touched_in(layer: Layer, inside: Mapping[bytes, bytes] = {}) -> Touched:
    """Return what a run touched in a copy, with what is there now; None for what is gone.

    `inside`: paths that are translated in it, by those that the run saw in their place. This user gets the
    rights to all folders. Raises ScriptError.
    """
    try:
        touched = _touched_in(layer)
        for path, now in touched.items() if inside else ():
            if now and not stat.S_ISDIR(now.st_mode):
                with suppress(OSError):  # in a folder in which this user may not write
                    translate_file(layer.content / path, replacement(inside))
                    touched[path] = (layer.content / path).lstat()
    except OSError as error:
        raise ScriptError(f"What the run wrote cannot be looked at ({error}).") from error
    return touched


def _touched_in(layer: Layer) -> dict[str, os.stat_result | None]:
    open_up(os.fspath(layer.content))
    before = layer.before or {}
    there, touched = set[str](), dict[str, os.stat_result | None]()
    for listing in scan(layer.content, skipped=layer.left_out, enters=_with_rights, is_strict=True):
        there.update(listing.inner)
        touched |= {path: now for path, now in listing.inner.items() if before.get(path) != telling(now)}
    # What lies there empty, or as a link, would go with its folder to another place, or away.
    if lost := [path for path in layer.left_out if not os.path.lexists(layer.content / path)]:
        raise ScriptError(f"{shown(lost)} was moved or removed, of which the run had no copy.")
    return touched | dict.fromkeys(before.keys() - there)


def _look_in_copy(found: ChangeList, layer: Layer, before: Mapping[str, Seen], touched: Touched) -> None:
    """Add what is another thing than when the copy was made: a file that was only touched is none."""
    with closing(Folders(layer.lower)) as originals, closing(Folders(layer.content)) as copies:
        for path, now in touched.items():
            above = os.path.dirname(path)  # noqa: PTH120
            folder = touched.get(above, before.get(above))
            if now and is_touched(was := before.get(path), now):
                beside = originals.find(path) if was else None
                found.compare(path, was, now, copies.entry(path).folder, beside.folder if beside else None)
            elif not now and (not above or (folder and stat.S_ISDIR(folder.st_mode))):
                found.remove(path, before[path])


def _with_rights(_: str, status: os.stat_result) -> os.stat_result:
    """Enter every folder, and get the rights to."""
    return status


def kind_of(mode: int) -> Kind:
    """Return what a path is, by its `st_mode`."""
    if stat.S_ISREG(mode):
        return "executable" if mode & _EXECUTES else "file"
    return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "special"


def _status(name: str, folder: int | None) -> os.stat_result | None:
    return None if folder is None else Entry(folder, name).status()


def is_same(change: Change, before: os.stat_result | Seen, lower: int) -> bool:
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
    with closed_after(open_beneath(layer.content, change.path, follow=False)) as file:
        return os.read(file, limit)


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
        return read_at_most(root, path, MAX_COMPARED, follow=False)
    return None
