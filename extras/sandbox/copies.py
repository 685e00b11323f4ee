"""Folders as a run sees and changes them while the real ones stay as they are: copies, without an overlay.

LAYER/ upper/            the copy, in which the run writes
       seen.json         what was seen in it when it was made
       lower -> the real folder: made when all else is there, else the copy was cut off
"""

import errno
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from skills_agent.sandbox.layer import TOO_LARGE, Layer
from skills_agent.sandbox.mounts import OWN_FOLDER
from skills_agent.sandbox.overlay import layer_in
from skills_agent.sandbox.products import above_of
from skills_agent.sandbox.run_folder import shown
from skills_agent.sandbox.scan import (
    MAX_DEPTH,
    NO_FOLDER,
    Entry,
    Folders,
    Seen,
    closed_after,
    statuses,
    telling,
)
from skills_agent.sandbox.stage import copy_entry, fclonefileat, make_alike
from skills_agent.skills import posix
from skills_agent.skills.confined import is_in, opened_folder
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.posix import FOLDER, NEW_FILE
from skills_agent.skills.scripts.run_folders import next_tick

MAX_FILES: Final = 50_000
"""Files and folders in a copy."""
MAX_COPIED: Final = 256 << 20
"""Bytes in a copy, of files that the file system does not clone by reference."""
MAX_LEFT_OUT: Final = 50
"""Files and folders that are left out for that: each is a mount, or a link, of its own."""
MAX_SEEN: Final = 1_000_000
"""Files and folders among which the large ones are looked for."""
LARGE: Final = 1 << 20
"""Bytes of a file that is left out by itself; others go with their folder."""
_SEEN: Final = "seen.json"
_FICLONE: Final = 0x40049409
_VANISHED: Final = NO_FOLDER | {errno.EISDIR, errno.EINVAL, errno.ENXIO}
"""What is said of a path that somebody removed, or put another thing at."""


def make_copies(
    folder: Path,
    lowers: Iterable[Path],
    moment: int,
    *,
    workspace: Path,
    closed: Collection[Path] = (),
    mounts: bool,
) -> list[Layer]:
    """Make a layer from a copy of each of these folders; `moment` as in `RunFolders`.

    No part of it are a `.git`, the workspace's `.agent`, what is `closed` (no link on its way), and what is
    too large or cannot be read. In the place of each there is something empty, for the real one to be
    mounted on; without `mounts`, a link to it, but for what nobody may see.

    Raises ScriptError for a folder of which too much would be left out, and for a full disk.
    """
    layers = []
    for number, lower in enumerate(lowers):
        own = [GIT, OWN_FOLDER if lower == workspace else f"{OWN_FOLDER}-{os.geteuid()}"]
        try:
            own += [
                os.path.relpath(path, lower) for path in closed if lower in path.parents and path.exists()
            ]
            layers.append(_copied(folder / str(number), lower, own, moment, mounts=mounts))
        except OverflowError as error:
            raise ScriptError(
                f"Not run: {lower} is too large to be copied for a run (at most {MAX_FILES:,} files, and "
                f"{MAX_COPIED >> 20} MiB, beside {MAX_LEFT_OUT} large ones), and nothing else here keeps it "
                "as it is. Work in a smaller folder, or let each thread have one (setting workdir = thread)."
            ) from error
        except OSError as error:
            raise ScriptError(f"Not run: {lower} cannot be copied for the run ({error}).") from error
    return layers


def kept_layer(place: Path) -> Layer:
    """Return the layer of a run that was cut off, a copy or not. Raises OSError and ScriptError."""
    layer = layer_in(place, (place / "lower").lstat().st_ctime_ns)  # it was made when the run began
    if not (place / _SEEN).exists():
        return layer
    try:
        moment, left_out, paths = json.loads((place / _SEEN).read_bytes())
    except ValueError as error:
        raise ScriptError(f"What was in {place} is not known any more.") from error
    before = {path: Seen(*seen) for path, seen in paths.items()}
    return replace(layer, moment=moment, before=before, left_out=left_out)


def not_copied(layer: Layer) -> Iterator[str]:
    """Yield sentences about what is no part of a copy."""
    if layer.large:
        yield f"Too large to be copied for the run, and read-only in it: {shown(layer.large)}."
    if others := [f"{path} ({why})" for path, why in layer.left_out.items() if why not in {"", TOO_LARGE}]:
        yield f"Not copied for the run: {shown(others)}."


def _copied(place: Path, lower: Path, own: Sequence[str], moment: int, *, mounts: bool) -> Layer:
    content = place / "upper"
    content.mkdir(parents=True, mode=0o700)
    there = [name for name in own[:2] if _is_place(lower / name)]
    left_out = dict.fromkeys([*there, *own[2:]], "")
    tree = statuses(lower, skipped=left_out, most=MAX_SEEN)
    most = inf if can_clone(place, lower) else MAX_COPIED
    left_out |= dict.fromkeys(_too_large(tree, most), TOO_LARGE)
    with closing(Folders(lower)) as sources, closing(Folders(content)) as targets:
        folders = {"": lower.stat()} | _copy(tree, sources, targets, left_out)
        left_out = {path: why for path, why in left_out.items() if path.rpartition("/")[0] in folders}
        for path in left_out:
            is_link = not mounts and (path == GIT or path in tree)
            is_folder = stat.S_ISDIR(tree[path].st_mode) if path in tree else not (lower / path).is_file()
            _make_place(targets.entry(path), lower / path if is_link else None, is_folder=is_folder)
        for path, status in reversed(folders.items()):  # what comes into a folder changes its time
            above, name = targets.entry(path)
            with closed_after(os.open(name, FOLDER, dir_fd=above)) as folder:
                make_alike(folder, status)
    before = {path: Seen(*telling(each)) for path, each in statuses(content, skipped=left_out).items()}
    (place / _SEEN).write_text(json.dumps([moment, left_out, before]))
    next_tick(place)
    (place / "lower").symlink_to(lower)
    return replace(layer_in(place, moment), before=before, left_out=left_out)


def _is_place(path: Path) -> bool:
    """Return whether there is a folder of that name; the agent's own in the workspace may come yet."""
    is_to_come = path.name == OWN_FOLDER and not os.path.lexists(path)
    return is_to_come or (path.is_dir() and not path.is_symlink())


def _copy(
    tree: Mapping[str, os.stat_result], sources: Folders, targets: Folders, left_out: dict[str, str]
) -> dict[str, os.stat_result]:
    """Copy all but what is left out, to which is added what cannot be copied; return the new folders.

    What vanishes meanwhile is no part of the copy.
    """
    folders: dict[str, os.stat_result] = {}
    for path, status in tree.items():
        above = path.rpartition("/")[0]
        if path in left_out or (above and above not in folders):
            continue
        try:
            if why := _bring(path, status, sources.entry(path), targets.entry(path)):
                left_out[path] = why
            elif stat.S_ISDIR(status.st_mode):
                folders[path] = status
        except PermissionError:
            left_out[path] = "it cannot be read"
        except OSError as error:
            if error.errno not in _VANISHED:
                raise
    return folders


def _bring(path: str, status: os.stat_result, source: Entry, target: Entry) -> str:
    """Copy what is at a path, a folder empty; return why that cannot be. Raises OSError."""
    mode = status.st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "it is a device"
    if stat.S_ISDIR(mode):
        with closed_after(os.open(source.name, FOLDER, dir_fd=source.folder)) as folder:
            os.stat(".", dir_fd=folder)  # what is in it can be seen
        if path.count("/") >= MAX_DEPTH - 1:
            return f"more than {MAX_DEPTH} folders are in one another"
        os.mkdir(target.name, 0o700, dir_fd=target.folder)
    elif stat.S_ISLNK(mode) or stat.S_ISREG(mode):
        copy_entry(source, target, status)
    else:
        try:
            os.mknod(target.name, mode, dir_fd=target.folder)  # another one: nobody is at its other end
        except NotImplementedError:  # macOS before 13
            return "it is a pipe"
    return ""


def _make_place(target: Entry, link: Path | None, *, is_folder: bool) -> None:
    if link:
        os.symlink(link, target.name, dir_fd=target.folder)
    elif is_folder:
        os.mkdir(target.name, 0o500, dir_fd=target.folder)
    else:
        os.close(os.open(target.name, NEW_FILE, 0, dir_fd=target.folder))


def _too_large(tree: Mapping[str, os.stat_result], most: float) -> list[str]:
    """Return what is left out so that the rest is at most so many bytes, and `MAX_FILES`.

    That is a few large files, or the smallest folders that are enough. Raises OverflowError for too much.
    """
    left = _heaviest(dict.fromkeys(tree, 1), MAX_FILES)
    sizes = {
        path: status.st_size
        for path, status in tree.items()
        if stat.S_ISREG(status.st_mode) and not any(is_in(path, each) for each in left)
    }
    over = sum(sizes.values()) - most
    large: list[str] = []
    for path in sorted(sizes, key=lambda path: -sizes[path]) if over > 0 else ():
        if over <= 0 or sizes[path] < LARGE or len(large) == MAX_LEFT_OUT:
            break
        large.append(path)
        over -= sizes[path]
    return [*left, *(large if over <= 0 else _heaviest(sizes, most))]


def _heaviest(weights: Mapping[str, int], most: float) -> list[str]:
    """Return the folders without which all paths together weigh at most so much."""
    folders = {"": 0}
    for path, weight in weights.items():
        for above in ("", *above_of(path)):
            folders[above] = folders.get(above, 0) + weight
    left: list[str] = []
    while (excess := folders[""] - most) > 0:
        every = sorted((weight, path) for path, weight in folders.items() if path)
        if not every or len(left) == MAX_LEFT_OUT:
            raise OverflowError
        one = next((path for weight, path in every if weight >= excess), every[-1][1])
        left.append(one)
        for above in ("", *above_of(one)):
            folders[above] -= folders[one]
        folders = {path: each for path, each in folders.items() if not is_in(path, one)}
    return left


def can_clone(folder: Path, lower: Path) -> bool:
    """Return whether files of `lower` are cloned into a folder by reference, which takes no room."""
    if folder.stat().st_dev != lower.stat().st_dev:
        return False
    with TemporaryDirectory(dir=folder) as trial, opened_folder(trial) as inner:
        file = Path(trial, "file")
        file.write_bytes(bytes(4096))
        with file.open("rb") as one, Path(trial, "other").open("wb") as other, suppress(OSError):
            if clone := fclonefileat():
                return not clone(one.fileno(), inner, b"clone", 0)
            posix.fcntl.ioctl(other.fileno(), _FICLONE, one.fileno())
            return True
    return False
