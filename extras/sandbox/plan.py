"""A plan that changes a folder: written down whole before its first step, and carried out by renames.

    take   what is at a path goes to `before/`
    drop   a folder goes, if nothing is in it
    make   a folder is made
    put    what is at a path goes to `before/`, and what is in `new/` comes there

Each step can be done again, and back: then `before/` and `new/` have changed sides. So a plan whose agent was
killed is carried out to its end, and one that cannot be is carried out back; so is one that is undone. What
somebody else puts in the way is kept.
"""

import errno
import logging
import os
import secrets
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from skills_agent.sandbox.scan import NO_FOLDER, Entry, Folders, closed_after
from skills_agent.skills.confined import open_folder_beneath, opened_folder
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.trees import give_rights

logger = logging.getLogger(__name__)

FORMAT: Final[Literal[2]] = 2
NEW: Final = "new"
BEFORE: Final = "before"
Act = Literal["take", "drop", "make", "put"]


class Step(NamedTuple):
    """One step of a plan; its number names its files in `new/` and `before/`."""

    act: Act
    path: str


class FolderState(NamedTuple):
    """What a folder has that is no name in it."""

    mode: int
    mtime: int = 0
    """`st_mtime_ns`; 0 for any."""


class Plan(NamedTuple):
    """What is to be done to a folder, and what was asked for."""

    version: Literal[2]
    label: str
    run: str
    """What it has in common with other plans of one run; empty where it is the only one."""
    when: float
    """Seconds since 1970."""
    changes: list[Change]
    steps: list[Step]
    before: dict[str, FolderState]
    """Of folders that are removed or made, or get another mode."""
    after: dict[str, FolderState]


def carry_out(plan: Plan, folder: Path, kept: Path, *, back: bool) -> None:
    """Carry a plan out, or back, from wherever it is; `kept` has its `new/` and `before/`.

    Raises OSError in the middle of it: then it can be carried out the other way.
    """
    start, end = (plan.after, plan.before) if back else (plan.before, plan.after)
    steps = [*enumerate(plan.steps)]
    sides = (BEFORE, NEW) if back else (NEW, BEFORE)
    with (
        closing(Folders(folder)) as folders,
        opened_folder(kept / sides[0]) as source,
        opened_folder(kept / sides[1]) as aside,
    ):
        for path in sorted(start):
            if place := folders.find(path):
                with suppress(FileNotFoundError):
                    give_rights(*place)
        comes, went = {*os.listdir(source)}, {*os.listdir(aside)}  # noqa: PTH208 - by their descriptors
        for number, (act, path) in reversed(steps) if back else steps:
            name = str(number)
            if act in {"make", "drop"}:
                _make_or_drop(folders, path, is_made=(act == "make") is not back)
                continue
            is_others = name in went  # what is at the path now
            if name in comes or ((act == "put") is back and not is_others):
                kept_as = f"{name}-{secrets.token_hex(4)}" if is_others else name
                with suppress(FileNotFoundError):
                    folders.entry(path).rename(Entry(aside, kept_as))
                    if is_others:
                        where = kept / sides[1] / kept_as
                        logger.warning("somebody else wrote %s meanwhile, and it is kept: %s", path, where)
                if name in comes:
                    Entry(source, name).rename(folders.entry(path))
    for path in sorted(end, reverse=True):  # what is in a folder before it: it may close itself
        _set_state(folder, path, end[path])


def _make_or_drop(folders: Folders, path: str, *, is_made: bool) -> None:
    """Make a folder, or remove one that is empty; one that is not, or is none, stays."""
    if is_made:
        place = folders.entry(path)
        with suppress(FileExistsError):
            os.mkdir(place.name, 0o700, dir_fd=place.folder)
        return
    try:
        place = folders.entry(path)
        os.rmdir(place.name, dir_fd=place.folder)
    except OSError as error:
        if error.errno not in NO_FOLDER | {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def _set_state(root: Path, path: str, state: FolderState) -> None:
    # It is gone, or somebody else's, which was to be removed, and could not be.
    is_others = suppress(FileNotFoundError, NotADirectoryError, PermissionError)
    with is_others, closed_after(open_folder_beneath(root, path)) as folder:
        os.fchmod(folder, state.mode)
        if state.mtime:
            os.utime(folder, ns=(state.mtime, state.mtime))
