"""A plan that changes a folder: written down whole before its first step, and carried out by renames.

    take   what is at a path goes to `before/`
    drop   a folder goes, if nothing is in it
    make   a folder is made
    put    what is at a path goes to `before/`, and what is in `new/` comes there

Each step can be done again and taken back. So a plan whose agent was killed is carried out to its end, and
one that cannot be is taken back; to undo a plan is the same. What somebody else puts in the way is kept.
"""

import ctypes
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from skills_agent.sandbox.layer import FILE, NO_FOLDER
from skills_agent.skills.confined import OutsideRootError, open_folder_beneath, parts_of, sync_folder
from skills_agent.skills.posix import flags
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.trees import give_rights

FORMAT: Final[Literal[1]] = 1
NEW: Final = "new"
BEFORE: Final = "before"
BITS: Final = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
"""What is applied of a mode: never a set-id bit."""
COPY: Final = flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC")
_PIECE: Final = 1 << 20
_MANY: Final = 16
"""Of so many files, all that waits for the disk is written at once: each fsync of its own takes 1 ms."""


class Step(NamedTuple):
    """One step of a plan; its number names its files in `new/` and `before/`."""

    act: Literal["take", "drop", "make", "put"]
    path: str


class FolderState(NamedTuple):
    """What a folder has that is no name in it."""

    mode: int
    mtime: int = 0
    """`st_mtime_ns`; 0 for any."""
    owner: int = -1
    group: int = -1


class Plan(NamedTuple):
    """What is to be done to a folder, and what was asked for."""

    version: Literal[1]
    folder: str
    label: str
    run: str
    """What it has in common with other plans of one run; empty where it is the only one."""
    when: float
    """Seconds since 1970."""
    changes: list[Change]
    steps: list[Step]
    before: dict[str, FolderState]
    """Of folders that are removed, or get another mode, or are to be written to without a right to."""
    after: dict[str, FolderState]


def plan_text(plan: Plan) -> bytes:
    """Return a plan as JSON; bytes of paths that are no UTF-8 are escaped."""
    return json.dumps(plan).encode()


def plan_of(text: bytes, folder: Path) -> Plan:
    """Return the plan in a text. Raises ValueError where it is damaged, or for another folder."""
    try:
        plan = msgspec.convert(json.loads(text), Plan)
        for path in (*(step.path for step in plan.steps), *(change.path for change in plan.changes)):
            checked(path)
        for path in (*plan.before, *plan.after):
            parts_of(path)
    except (OutsideRootError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if plan.folder != os.fspath(folder):
        raise ValueError(f"it is for {plan.folder}")
    return plan


def checked(path: str) -> str:
    """Return a path in a folder. Raises OutsideRootError where it is written as none of a change."""
    if not path or "/".join(parts_of(path)) != path:
        raise OutsideRootError(path)
    return path


class Entry(NamedTuple):
    """A name in an open folder."""

    folder: int
    name: str

    def status(self) -> os.stat_result | None:
        """Return what is there, if something is."""
        try:
            return os.lstat(self.name, dir_fd=self.folder)
        except FileNotFoundError:
            return None

    def unlink(self) -> None:
        """Remove what is there, if something is; no folder."""
        with suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.folder)

    def rename(self, target: "Entry") -> None:
        """Rename it, over what is there."""
        os.rename(self.name, target.name, src_dir_fd=self.folder, dst_dir_fd=target.folder)


class Folders:
    """The folders beneath one, opened part by part through no link; the last one stays open."""

    def __init__(self, root: Path) -> None:
        self._root, self._path, self._descriptor = root, "", -1

    def entry(self, path: str) -> Entry:
        """Return a path as a name in its folder. Raises OSError where that cannot be opened."""
        above, _, name = path.rpartition("/")
        if self._descriptor < 0 or above != self._path:
            self.close()
            self._descriptor = open_folder_beneath(self._root, above)
            self._path = above
        return Entry(self._descriptor, name or ".")

    def find(self, path: str) -> Entry | None:
        """Return the same, None where there is no such folder."""
        try:
            return self.entry(path)
        except OSError as error:
            if error.errno not in NO_FOLDER:
                raise
            return None

    def close(self) -> None:
        """Close what is open; the next path opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class CarryingOut:
    """A plan that is carried out, or taken back."""

    def __init__(self, plan: Plan, folder: Path, kept: Path) -> None:
        """Name the folder and the plan's own, with `new/` and `before/` in it."""
        self._plan, self._folder, self._kept = plan, folder, kept
        self.displaced: list[str] = []
        """What somebody else had put in the way: where it is now."""

    def run(self, *, back: bool, again: bool) -> None:
        """Carry the plan out, or take it back; `again` where it may have been begun.

        Raises OSError in the middle of it: then it can be run the other way.
        """
        start, end = self._plan.before, self._plan.after
        if back:
            start, end = end, start
        numbers = range(len(self._plan.steps))
        with closing(Folders(self._folder)) as folders, self._opened():
            for path in sorted(start):
                if entry := folders.find(path):
                    with suppress(FileNotFoundError):
                        give_rights(*entry)
            if again:
                self._end_moves(folders)
            for number in reversed(numbers) if back else numbers:
                self._step(number, folders, back=back)
            self._set(end)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        self._new = open_folder_beneath(self._kept, NEW)
        try:
            self._before = open_folder_beneath(self._kept, BEFORE)
            try:
                yield
            finally:
                os.close(self._before)
        finally:
            os.close(self._new)

    def _step(self, number: int, folders: Folders, *, back: bool) -> None:
        act, path = self._plan.steps[number]
        new, before = Entry(self._new, str(number)), Entry(self._before, str(number))
        if act in {"make", "drop"}:
            if (act == "make") is not back:
                _make(folders.entry(path))
            elif place := folders.find(path):
                _drop(place)
        elif back and before.status():
            self._swap(number, folders.entry(path), before, new)
        elif not back and act == "put":
            if new.status():  # else it is done
                self._swap(number, folders.entry(path), new, before)
        elif back and (act == "take" or new.status()):
            return  # it was not done
        elif back or not before.status():
            with suppress(FileNotFoundError):  # somebody else removed it
                place = folders.entry(path)
                if (status := place.status()) and not stat.S_ISDIR(status.st_mode):
                    self._move(number, place, new if back else before)

    def _swap(self, number: int, place: Entry, source: Entry, aside: Entry) -> None:
        """Bring what is in one of our folders to its place, and what is there to the other one."""
        if place.status():
            if aside.status():
                aside = Entry(aside.folder, f"{number}-{secrets.token_hex(4)}")
                kept_in = NEW if aside.folder == self._new else BEFORE
                self.displaced.append(f"{self._plan.steps[number].path}: {self._kept / kept_in / aside.name}")
            self._move(number, place, aside)
        self._move(number, source, place)

    def _move(self, number: int, source: Entry, target: Entry) -> None:
        """Rename; to another file system, copy. A whole copy has a name of its own until it is alone."""
        try:
            source.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            part, whole = self._copies(number, source, target)
            part.unlink()
            copy_entry(source, part)
            part.rename(whole)
            _settle(source, whole, target)

    def _copies(self, number: int, source: Entry, target: Entry) -> tuple[Entry, Entry]:
        origin = {self._new: NEW, self._before: BEFORE}.get(source.folder, "place")
        name = f".{self._kept.name}-{number}-{origin}"
        return Entry(target.folder, f"{name}~"), Entry(target.folder, name)

    def _end_moves(self, folders: Folders) -> None:
        """Take off what is left of moves to another file system that were cut off."""
        for number, step in enumerate(self._plan.steps):
            place = folders.find(step.path) if step.act in {"take", "put"} else None
            if place is None:
                continue
            new, before = Entry(self._new, str(number)), Entry(self._before, str(number))
            for source, target in ((place, before), (place, new), (new, place), (before, place)):
                part, whole = self._copies(number, source, target)
                part.unlink()
                if whole.status():
                    with suppress(OSError):  # then nothing was moved, and is tried again
                        _settle(source, whole, target)

    def _set(self, states: Mapping[str, FolderState]) -> None:
        """Give folders their modes and times, those in a folder before it: it may close itself."""
        for path, state in sorted(states.items(), reverse=True):
            try:
                folder = open_folder_beneath(self._folder, path)
            except OSError as error:
                if error.errno in NO_FOLDER:
                    continue
                raise
            try:
                _set_state(folder, state)
            finally:
                os.close(folder)


def _settle(source: Entry, whole: Entry, target: Entry) -> None:
    """End a move by a whole copy. Raises OSError where the source has to stay: then there is no copy."""
    try:
        source.unlink()
    except OSError:
        whole.unlink()
        raise
    whole.rename(target)


def _set_state(folder: int, state: FolderState) -> None:
    set_owner(folder, state.owner, state.group)
    with suppress(PermissionError):  # somebody else's, which was to be removed, and could not be
        os.fchmod(folder, state.mode)
        if state.mtime:
            os.utime(folder, ns=(state.mtime, state.mtime))


def _make(place: Entry) -> None:
    try:
        os.mkdir(place.name, 0o700, dir_fd=place.folder)
    except FileExistsError:
        status = place.status()
        if status and not stat.S_ISDIR(status.st_mode):
            raise


def _drop(place: Entry) -> None:
    """Remove a folder that is empty; one that is not, or is none, stays."""
    try:
        os.rmdir(place.name, dir_fd=place.folder)
    except OSError as error:
        if error.errno not in NO_FOLDER | {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def copy_entry(source: Entry, target: Entry, *, is_synced: bool = True) -> None:
    """Copy what is no folder with its mode, owner and time, by reference where the file system can."""
    status = os.lstat(source.name, dir_fd=source.folder)
    times = (status.st_atime_ns, status.st_mtime_ns)
    if not stat.S_ISREG(status.st_mode):
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source.name, dir_fd=source.folder), target.name, dir_fd=target.folder)
        else:
            os.mknod(target.name, status.st_mode, status.st_rdev, dir_fd=target.folder)
        os.utime(target.name, ns=times, dir_fd=target.folder, follow_symlinks=False)
        return
    reading = os.open(source.name, FILE, dir_fd=source.folder)
    try:
        writing = os.open(target.name, COPY, 0o600, dir_fd=target.folder)
        try:
            _copy_bytes(reading, writing)
            set_owner(writing, status.st_uid, status.st_gid)
            os.fchmod(writing, stat.S_IMODE(status.st_mode))
            os.utime(writing, ns=times)
            if is_synced:
                os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_bytes(reading: int, writing: int) -> None:
    with suppress(OSError, AttributeError):  # not from every file system to every other, and not on macOS
        while os.copy_file_range(reading, writing, _PIECE):
            pass
    while piece := os.read(reading, _PIECE):
        while piece:
            piece = piece[os.write(writing, piece) :]


def set_owner(descriptor: int, owner: int, group: int) -> None:
    """Give a file or folder an owner, as far as this user may; -1 for the one that it has."""
    status = os.fstat(descriptor)
    if owner not in {-1, status.st_uid} or group not in {-1, status.st_gid}:
        with suppress(PermissionError):
            os.fchown(descriptor, owner, group)


def is_one_by_one(count: int) -> bool:
    """Return whether so few files are put on the disk by themselves."""
    return count <= _MANY


def put_on_disk(root: Path, plan: Plan) -> None:
    """Put the names that a plan changed on the disk; of many, with all else of the file system."""
    folders = {step.path.rpartition("/")[0] for step in plan.steps} | plan.after.keys()
    if not is_one_by_one(len(folders)):
        sync_file_system(root)
        return
    for path in folders:
        try:
            folder = open_folder_beneath(root, path)
        except OSError:  # removed, or one that this user has no rights to now
            continue
        try:
            sync_folder(folder)
        finally:
            os.close(folder)


def sync_file_system(folder: Path) -> None:
    """Put all that was written to the file system of a folder on the disk: 200 files take 5 ms, not 200."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "syncfs"):  # macOS
            os.sync()
        elif libc.syncfs(descriptor):
            raise OSError(ctypes.get_errno(), "cannot be put on the disk", os.fspath(folder))
    finally:
        os.close(descriptor)
