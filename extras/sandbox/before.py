"""What a real folder was before a run, to tell what changed since, and to take changes back."""

import os
import stat
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from skills_agent.sandbox.apply import Applier
from skills_agent.sandbox.changes import Judge
from skills_agent.sandbox.copies import LARGE
from skills_agent.sandbox.layer import ChangeList, Layer
from skills_agent.sandbox.layered import LayerStore
from skills_agent.sandbox.mounts import OWN_FOLDER
from skills_agent.sandbox.products import above_of
from skills_agent.sandbox.real_folder import Before, changes_since, look_before
from skills_agent.sandbox.scan import Entry, Folders, open_with_rights
from skills_agent.sandbox.stage import copy_entry
from skills_agent.skills.confined import is_in, make_folder_beneath, open_folder_beneath, outermost
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.changes import Act, Change, JudgedChange
from skills_agent.skills.trees import give_rights, open_up, remove_tree

MAX_COPIES: Final = 1_000
MAX_COPIED: Final = 256 << 20
"""Bytes; the small files first. What has no copy stays where it changes, and is told."""
_COPIES: Final = "copies"
_BEFORE: Final = "before"


class Look:
    """Finds what changed in a folder since before a run, and takes changes back."""

    def __init__(self, place: Path, before: Before) -> None:
        """Name the folder with the copies, and what is known of the real one."""
        self.before, self.lower, self.copies = before, Path(before.lower), place / _COPIES
        self.left: list[str] = []
        """What changed and could not be taken back the last time."""

    @classmethod
    def of(cls, store: LayerStore, lower: Path, place: Path, label: str, allowed: list[str]) -> "Look":
        """Look at a folder before a run, which a person approved to write what is `allowed`.

        Files of which the judge would ask if they changed are copied into `place`. Raises OSError.
        """
        obeyed = store.obeyed(lower)
        inside = [os.path.relpath(path, lower) for path in allowed if is_in(path, str(lower))]
        own = store.own(lower)
        entries = [entry[1:] for entry in store.protected if lower == store.workspace and entry[0] == "/"]
        places = [os.path.relpath(path, lower) for entry in entries for path in lower.glob(entry)]
        found = [
            path
            for path in (*obeyed.by_git, *places)
            if os.path.lexists(lower / path)
            and not any(is_in(path, each) or is_in(each, path) for each in inside)
        ]
        skipped = outermost({*[own.name] * (own.parent == lower), *obeyed.gits, *found})
        before = Before(str(lower), label, allowed, obeyed.elsewhere, skipped, {}, [], [])
        judge = Judge((), Layer(lower, lower, 0), store.protected, store.workspace, obeyed.elsewhere)
        look_before(before, judge)
        look = cls(place, before)
        look._copy_asked(judge)
        return look

    def _copy_asked(self, judge: Judge) -> None:
        """Copy what the judge asks about, the small files first."""
        asked = [
            (seen.st_size, path)
            for path, seen in self.before.paths.items()
            if seen and judge.asks(path, seen.st_mode)
        ]
        self.copies.mkdir(parents=True)
        left = MAX_COPIED
        with closing(Folders(self.lower)) as folders:
            for size, path in sorted(asked)[:MAX_COPIES]:
                left -= size
                with suppress(OSError):  # somebody removes it just now, or it cannot be read
                    if left >= 0:
                        (self.copies / path).parent.mkdir(parents=True, exist_ok=True)
                        above = open_folder_beneath(self.copies, os.path.dirname(path))  # noqa: PTH120
                        _copy(Change(path, "changed", "file"), folders.entry(path), above)

    def read_only(self, allowed: Collection[Path]) -> list[str]:
        """Return what a sandbox keeps the run from, but for what somebody approved it to write."""
        paths = (*self.before.skipped, *self.before.shared)
        return [path for path in paths if path != OWN_FOLDER and self.lower / path not in allowed]

    def changes(self) -> list[Change]:
        """Return what changed, but for what is as its copy. Raises OSError and ScriptError."""
        return changes_since(self.before, self.copies)

    def changed(self, path: str) -> int:
        """Return when a path, or what is left of the way to it, changed (st_ctime_ns)."""
        try:
            return os.lstat(self.lower / path).st_ctime_ns
        except OSError:
            return self.changed(os.path.dirname(path))  # noqa: PTH120 - paths are text here

    def take_back(self, judged: Iterable[JudgedChange], layer: Layer, applier: Applier) -> list[JudgedChange]:
        """Copy changes into a layer, and make of the folder what it was; return those that are in the layer.

        A large file that is nearly all holes is dropped: its copy would fill the disk. What somebody puts
        there just now is kept by the applier.
        """
        taken: list[JudgedChange] = []
        back: list[Change] = []
        left: set[str] = set()
        place = layer.content.parent
        (place / _BEFORE).mkdir(exist_ok=True)
        open_up(os.fspath(layer.content))  # it has the mode that the run left the folder with
        with closing(Folders(self.lower)) as folders, closing(Folders(self.copies)) as copies:
            for each in judged:
                change, decision, why = each
                try:
                    for path in ("", *above_of(change.path), change.path):  # which the run may have closed
                        with suppress(FileNotFoundError):
                            give_rights(*folders.entry(path))
                    before = self._before(each, copies, place / _BEFORE)
                    is_copied = change.act != "removed" and change.kind != "special" and why
                    if is_copied and _is_sparse(folders.entry(change.path)):
                        decision, why = "deny", "it is a large file of holes"
                    elif is_copied:
                        above = make_folder_beneath(layer.content, os.path.dirname(change.path))  # noqa: PTH120
                        now = _copy(change, folders.entry(change.path), above)
                        change = now._replace(mode=change.mode)  # without the rights that a look needed
                except FileNotFoundError:  # somebody removed it meanwhile
                    continue
                except (OSError, ScriptError):
                    left.add(change.path)
                else:
                    back.append(before)
                    taken.append(JudgedChange(change, decision, why))
        failed = self._make(back, place / _BEFORE, applier)
        remove_tree(place / _BEFORE)  # what was put back are links to what is in it
        self.left = sorted(left | failed)
        return [each for each in taken if each.change.path not in failed]

    def _before(self, judged: JudgedChange, copies: Folders, content: Path) -> Change:
        """Return the change that makes a path what it was, and bring what it needs for that into a folder.

        Raises OSError for one without a copy. The copy itself stays, and no file of the folder is the same.
        """
        change, why = judged.change, judged.why
        if change.act == "added":
            return Change(change.path, "removed", change.kind)
        act: Act = "changed" if change.act == "changed" else "added"
        if change.kind == "folder":
            seen = self.before.paths[change.path]
            return Change(change.path, act, "folder", mode=stat.S_IMODE(seen.st_mode) if seen else 0)
        entry = copies.find(change.path)
        if entry and entry.status():
            above = make_folder_beneath(content, os.path.dirname(change.path))  # noqa: PTH120
            return _copy(Change(change.path, act, "file"), entry, above)
        if why:
            raise PermissionError(f"{change.path} has no copy")
        return Change(change.path, "removed", change.kind)  # Python makes it again

    def _make(self, changes: list[Change], content: Path, applier: Applier) -> set[str]:
        """Apply changes, one by one where all together cannot be; return the paths that stay as they are."""
        try:
            applier.apply(content, 0, changes, label="", over_conflicts=True)
        except ScriptError:
            if len(changes) == 1:
                return {changes[0].path}
            return {path for each in changes for path in self._make([each], content, applier)}
        return set()


def _is_sparse(entry: Entry) -> bool:
    status = entry.status()
    return status is not None and status.st_size > LARGE + 8 * 512 * status.st_blocks


def _copy(change: Change, source: Entry, above: int) -> Change:
    """Copy what is at a place into an open folder, which is closed; return the change as it is there."""
    try:
        status, target = os.lstat(source.name, dir_fd=source.folder), Entry(above, source.name)
        if target.status() and not stat.S_ISDIR(status.st_mode):  # of an earlier look
            target.rename(Entry(above, f"{target.name}~{token_hex(4)}"))
        if stat.S_ISDIR(status.st_mode):
            with suppress(FileExistsError):
                os.mkdir(target.name, dir_fd=above)
        else:
            if stat.S_ISREG(status.st_mode):
                os.close(open_with_rights(source.name, source.folder, status))
            copy_entry(source, target, status)
        is_now = os.lstat(target.name, dir_fd=above)
        copied = ChangeList().is_now(change.path, change.act, is_now, above)
        return copied._replace(mode=stat.S_IMODE(status.st_mode))
    finally:
        os.close(above)
