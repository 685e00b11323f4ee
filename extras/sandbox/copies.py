"""Folders as a run sees and changes them while the real ones stay as they are: copies, without an overlay.

A copy is kept for the next run, which brings it up to date: what somebody else changed in the real folder is
copied again, and what the run before touched in the copy. No program can set the time by which that is known
(`st_ctime_ns`); a new name for a file, a hard link, counts as a change of it.

LAYER/ upper/            the copy, in which the run writes
       seen              what was seen of it, and of the real folder, when it was made
       touched.json      what its last run touched: in one that is kept
       lower -> the real folder: made when all else is there, else the copy was cut off
FOLDER/copy-XXXX/        a layer that is kept, beside the runs
"""

import errno
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from hashlib import sha256
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from skills_agent.sandbox.layer import TOO_LARGE, Layer, Touched
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
    is_touched,
    statuses,
    telling,
)
from skills_agent.sandbox.stage import copy_entry, fclonefileat, make_alike
from skills_agent.skills import posix
from skills_agent.skills.confined import is_in, opened_folder, outermost
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.posix import FOLDER, NEW_FILE
from skills_agent.skills.scripts.run_folders import next_tick
from skills_agent.skills.trees import give_rights, remove_tree

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
COPY: Final = "copy-"
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""A copy is kept until the machine ends: with the power, bytes may be lost that were not on the disk yet."""
_SEEN, _TOUCHED = "seen", "touched.json"
_Written = tuple[int, dict[bytes, str], dict[bytes, Seen], dict[bytes, Seen]]
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
        return _read(place)
    except ValueError as error:
        raise ScriptError(f"What was in {place} is not known any more.") from error


def keep_copy(layer: Layer, touched: Touched) -> None:
    """Keep a copy for the next run, unless there is one already. Raises OSError.

    The files that this run touched are removed: what was applied of them is linked to the real folder.
    """
    place = layer.content.parent
    files = [path for path, now in touched.items() if now and not stat.S_ISDIR(now.st_mode)]
    with closing(Folders(layer.content)) as copies:
        _clear(layer.content, files, {}, copies)
    (place / _TOUCHED).write_text(json.dumps([*touched]))
    place.rename(_kept_place(place, layer.lower))


def _kept_place(place: Path, lower: Path) -> Path:
    """Return where the copy of a folder is kept. Raises OSError where it cannot be known that it is whole."""
    digest = sha256(BOOT.read_bytes() + os.fsencode(lower)).hexdigest()
    return place.parent.parent / f"{COPY}{digest[:16]}"


def not_copied(layer: Layer) -> Iterator[str]:
    """Yield sentences about what is no part of a copy."""
    if layer.large:
        yield f"Too large to be copied for the run, and read-only in it: {shown(layer.large)}."
    if others := [f"{path} ({why})" for path, why in layer.left_out.items() if why not in {"", TOO_LARGE}]:
        yield f"Not copied for the run: {shown(others)}."


def _read(place: Path) -> Layer:
    """Return the layer of a copy, as it was when a run began. Raises OSError and ValueError."""
    moment, *others = msgspec.msgpack.decode((place / _SEEN).read_bytes(), type=_Written)
    left_out, before, real = ({os.fsdecode(path): each for path, each in of.items()} for of in others)
    return replace(layer_in(place, moment), before=before, left_out=left_out, real=real)


def _write(place: Path, layer: Layer) -> None:
    """Keep what is known of a copy: as bytes, for a path may be no text."""
    others = (
        {os.fsencode(path): each for path, each in of.items()}
        for of in (layer.left_out, layer.before or {}, layer.real)
    )
    (place / _SEEN).write_bytes(msgspec.msgpack.encode((layer.moment, *others)))


def _copied(place: Path, lower: Path, own: Sequence[str], moment: int, *, mounts: bool) -> Layer:
    content = place / "upper"
    there = [name for name in own[:2] if _is_place(lower / name)]
    rule = dict.fromkeys([*there, *own[2:]], "")
    tree = statuses(lower, skipped=rule, most=MAX_SEEN)
    most = inf if can_clone(place.parent, lower) else MAX_COPIED
    rule |= dict.fromkeys(_too_large(tree, most), TOO_LARGE)
    kept = outermost(rule)
    rule = {path: why for path, why in rule.items() if path in kept}
    known, touched = _taken(place, lower, rule)
    left_out, before, real = rule, {**(known.before or {})}, {**known.real}
    stale = {*touched, *(before.keys() - tree.keys()), *_changed(tree, before, real, left_out)}
    with closing(Folders(lower)) as sources, closing(Folders(content)) as targets:
        cleared = _clear(content, stale if known.left_out or before else (), tree, targets)
        folders = {"": lower.stat()} | _copy(tree, sources, targets, left_out, before.keys() - stale)
        left_out = {path: why for path, why in left_out.items() if path.rpartition("/")[0] in folders}
        for path in left_out:
            is_link = not mounts and (path == GIT or path in tree)
            is_folder = stat.S_ISDIR(tree[path].st_mode) if path in tree else not (lower / path).is_file()
            _make_place(targets.entry(path), lower / path if is_link else None, is_folder=is_folder)
        for path in sorted({"", *stale, *cleared}, reverse=True):  # what comes into a folder changes its time
            entry, status = targets.find(path), tree.get(path)
            if entry and path in folders:
                with closed_after(os.open(entry.name, FOLDER, dir_fd=entry.folder)) as folder:
                    make_alike(folder, folders[path])
            before.pop(path, None)
            if status and entry and path not in left_out and (copy := entry.status()):
                before[path], real[path] = Seen(*telling(copy)), Seen(*telling(status))
                if status.st_ctime_ns >= moment:  # it may change once more in the same tick
                    del real[path]
    layer = Layer(lower, content, moment, before, left_out, real=real)
    _write(place, layer)
    next_tick(place)
    (place / "lower").symlink_to(lower)
    return layer


def _taken(place: Path, lower: Path, rule: Mapping[str, str]) -> tuple[Layer, list[str]]:
    """Take the copy that is kept, with what was touched in it; or begin with an empty one."""
    with suppress(OSError, ValueError):
        _kept_place(place, lower).rename(place)
        known, touched = _read(place), json.loads((place / _TOUCHED).read_text())
        (place / "lower").unlink()
        if rule == {path: why for path, why in known.left_out.items() if why in {"", TOO_LARGE}}:
            return known, [*known.left_out, *touched]
    remove_tree(place)
    (place / "upper").mkdir(parents=True, mode=0o700)
    return Layer(lower, place / "upper", 0, {}), []


def _changed(
    tree: Mapping[str, os.stat_result],
    before: Collection[str],
    real: Mapping[str, Seen],
    left_out: Iterable[str],
) -> Iterator[str]:
    """Yield the paths of a folder that are not in a copy, or that somebody changed since."""
    out = {*left_out}
    for path, status in tree.items():
        if path in out or path.rpartition("/")[0] in out:
            out.add(path)
        elif path not in before or is_touched(real.get(path), status):
            yield path


def _clear(
    content: Path, stale: Iterable[str], tree: Mapping[str, os.stat_result], copies: Folders
) -> set[str]:
    """Remove what is at some paths of a copy, but for folders that come there again; return the folders.

    This user gets the rights to these.
    """
    cleared = set[str]()
    for path in sorted(stale):
        above = path.rpartition("/")[0]
        with suppress(FileNotFoundError, NotADirectoryError):  # it went with a folder above it
            if above not in cleared:
                give_rights(*copies.entry(above))
                cleared.add(above)
            there = [each for each in (copies.entry(path).status(), tree.get(path)) if each]
            if len(there) == 1 or not all(stat.S_ISDIR(each.st_mode) for each in there):
                remove_tree(content / path)
                (content / path).unlink(missing_ok=True)
    return cleared


def _is_place(path: Path) -> bool:
    """Return whether there is a folder of that name; the agent's own in the workspace may come yet."""
    is_to_come = path.name == OWN_FOLDER and not os.path.lexists(path)
    return is_to_come or (path.is_dir() and not path.is_symlink())


def _copy(
    tree: Mapping[str, os.stat_result],
    sources: Folders,
    targets: Folders,
    left_out: dict[str, str],
    kept: Collection[str],
) -> dict[str, os.stat_result]:
    """Copy all but what is kept or left out, to which is added what cannot be copied; return the folders.

    What vanishes meanwhile is no part of the copy.
    """
    folders: dict[str, os.stat_result] = {}
    for path, status in tree.items():
        above = path.rpartition("/")[0]
        if path in left_out or (above and above not in folders):
            continue
        try:
            if why := "" if path in kept else _bring(path, status, sources.entry(path), targets.entry(path)):
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
        with suppress(FileExistsError):
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
    sizes = {path: status.st_size for path, status in tree.items() if stat.S_ISREG(status.st_mode)}
    left = _heaviest(dict.fromkeys(tree, 1), MAX_FILES)
    for each in left:
        sizes = {path: size for path, size in sizes.items() if not is_in(path, each)}
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
    if sum(weights.values()) <= most:
        return []
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
