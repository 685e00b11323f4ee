"""What becomes of each change that a run made: the one place that decides, by what a thing is.

deny   what no folder of a person's may get from a script: a link that leads out, a FIFO, socket or device,
       a set-id bit, a change in a `.git` that was there or in the agent's own folder. Without a word: what
       Python keeps in `__pycache__`, which it makes again, and runs in the place of the code beside it.
ask    what somebody executes or obeys without having asked for it (`_Judge.obeyed`).
allow  all else. Code that a person runs, such as src/app.py, is among it: they look at it before they do.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from skills_agent.sandbox.folder_after import FolderAfter
from skills_agent.sandbox.layer import Layer, kind_of, start_of
from skills_agent.sandbox.obeyed import CACHE
from skills_agent.sandbox.products import MARKERS, Products, above_of
from skills_agent.skills.confined import is_in
from skills_agent.skills.policy.protected import GIT, PROTECTED, is_protected_name, protected_by
from skills_agent.skills.scripts.changes import Change, JudgedChange
from skills_agent.skills.trees import walk

REPOSITORY: Final = frozenset(
    {"head", "config", "config.worktree", "commondir", "hooks", "info", "objects", "refs"}
)
"""What makes any folder a repository without a work tree, or what git obeys there; in small letters."""
LOADED_FIRST: Final = {".so": ".py", ".pyd": ".py", ".elc": ".el", ".pmc": ".pm", ".zwc": ""}
"""By the end of a name: the source that Python, Emacs, Perl and zsh load it in the place of."""
MAX_REMOVED: Final = 100_000
"""Files and folders in one that was removed, which are looked at."""
_SET_ID: Final = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX


def judge(
    changes: Collection[Change],
    layer: Layer,
    *,
    allowed: Collection[Path] = (),
    more: Collection[str] = (),
    workspace: Path | None = None,
    elsewhere: Mapping[str, str],
) -> list[JudgedChange]:
    """Return what is decided about each change, in their order, whatever that order is.

    `allowed`: paths that a person approved the run to write (absolute, links resolved), and what is in them.
    `more`: protected paths beside `PROTECTED`, as `protected_entries` of the graph gives them.
    `workspace`: where links may lead, and what `more` counts from; the layer's folder by default.
    `elsewhere`: who names a path of the folder that its own name does not protect, or leads there
    (`ObeyedFiles`).
    """
    own = Judge(changes, layer, more, workspace, elsewhere)
    inside = [os.path.relpath(path, layer.lower) for path in allowed if is_in(str(path), str(layer.lower))]
    return _together([own.decide(each, inside) for each in changes])


def _together(decided: Collection[JudgedChange]) -> list[JudgedChange]:
    """Decide alike about what makes no sense apart: two changes of a path, a folder and what is in it."""
    come = {each.change.path: each for each in decided if each.change.act == "added"}
    found = []
    for judged in decided:
        path = judged.change.path
        above = [each for folder in above_of(path) if (each := come.get(folder)) and each.decision != "allow"]
        together = (judged, come.get(path, judged), *above[:1])
        worst = max(together, key=lambda each: ("allow", "ask", "deny").index(each.decision))
        found.append(judged._replace(decision=worst.decision, why=worst.why))
    return found


@lru_cache(maxsize=4096)
def _entry_of(name: str) -> str | None:
    """Return what protects a name by itself."""
    return protected_by(name)


@lru_cache(maxsize=4096)
def _may_be_obeyed(name: str, more: tuple[str, ...]) -> bool:
    """Return whether a name is obeyed in some folder."""
    last_names = tuple(entry.rpartition("/")[2] for entry in more)
    is_special = name.casefold() in REPOSITORY or name[name.rfind(".") :] in LOADED_FIRST
    return is_special or is_protected_name(name, (*more, *last_names))


class Judge:
    """Decides about changes of a folder, and says what it would ask about."""

    def __init__(
        self,
        changes: Collection[Change],
        layer: Layer,
        more: Collection[str],
        workspace: Path | None,
        elsewhere: Mapping[str, str],
    ) -> None:
        """Take what `judge` does."""
        self._layer = layer
        self._root = os.fspath(layer.lower)
        self._more = tuple(more)
        above = os.path.relpath(self._root, os.path.realpath(workspace or self._root))
        self._prefix = "" if above.startswith(".." + os.sep) or above in {".", ".."} else f"{above}/"
        self._after = FolderAfter(layer.lower, changes, workspace)
        self._products = Products(layer.lower, changes, layer.originals)
        self._elsewhere = dict(elsewhere)
        self._obeyed_folders: dict[str, bool] = {}
        self._packages: dict[str, bool] = {}
        self._repositories: dict[str, bool] = {}
        for link in (each for each in changes if each.kind == "link" and each.act != "removed"):
            if self._protected(link.path):
                self._elsewhere |= dict.fromkeys(self._after.ends_inside(link), link.path)

    def asks(self, path: str, mode: int) -> bool:
        """Return whether a person would be asked about a file or link that is there, if it changed.

        No text is looked into that is no program: which one becomes one, nobody knows before.
        """
        kind = kind_of(mode)
        is_plain = kind == "file"
        if kind in {"folder", "special"} or self.is_free(path) or (is_plain and not self._may_ask(path)):
            return False
        change = Change(path, "changed", kind, mode=stat.S_IMODE(mode))
        return bool(self.obeyed(change, is_read=not is_plain))

    def is_free(self, path: str) -> bool:
        """Return whether a file is one of packages, about which it does not ask whatever is in it."""
        folder = path.rpartition("/")[0]
        if folder not in self._packages:
            is_cache = CACHE in folder.casefold().split("/")
            self._packages[folder] = self._products.is_others(folder) and not is_cache
        return self._packages[folder] and not self._may_ask(path)

    def _may_ask(self, path: str) -> bool:
        """Return whether it may ask about a plain file for its place. It costs little."""
        folder, _, name = path.rpartition("/")
        if folder not in self._obeyed_folders:
            parts = f"{self._prefix}{folder}".split("/")
            self._obeyed_folders[folder] = any(_may_be_obeyed(part, self._more) for part in parts) or any(
                is_in(folder, each) or os.path.dirname(each) == folder for each in self._elsewhere
            )
        return self._obeyed_folders[folder] or _may_be_obeyed(name, self._more)

    def decide(self, change: Change, allowed: Collection[str]) -> JudgedChange:
        """Decide about one change."""
        if why := self._refused(change):
            return JudgedChange(change, "deny", why)
        is_cached = CACHE in change.path.casefold().split("/")
        if is_cached and change.act != "removed" and not self._is_of_new_package(change):
            return JudgedChange(change, "deny")
        if not (why := self.obeyed(change)):
            return JudgedChange(change, "allow")
        if self._has_other_names(change):
            return JudgedChange(change, "deny", "it is a file of several names (hard links)")
        is_on_way = change.kind == "folder" and change.act == "added"
        is_allowed = any(
            each == "." or is_in(change.path, each) or (is_on_way and is_in(each, change.path))
            for each in allowed
        )
        return JudgedChange(change, "allow") if is_allowed else JudgedChange(change, "ask", why)

    def _is_of_new_package(self, change: Change) -> bool:
        """Return whether a cached file came with its source, in a folder of packages."""
        folder, _, name = change.path.rpartition("/")
        source = f"{folder.rpartition('/')[0]}/{name.partition('.')[0]}.py"
        is_of_new = change.kind == "file" and self._after.is_new_file(source)
        return (is_of_new or change.kind == "folder") and self._products.is_in_own(change.path)

    def _refused(self, change: Change) -> str:
        """Return why a change is never applied; empty where it may be."""
        parts = change.path.split("/")
        if _entry_of(parts[0]) == ".agent":
            return "it is the agent's own"
        for at, part in enumerate(parts):
            if _entry_of(part) == GIT and self._was_git("/".join(parts[:at]), part):
                return "it is git's own"
        if change.act == "removed":
            return ""
        if change.kind == "special":
            return "it is a FIFO, socket or device"
        if change.kind == "link":
            return f"it leads out, to {change.target}" if self._after.leads_out(change) else ""
        # A folder in one that is of a group takes its bit from there, and means nothing but the group.
        bits = stat.S_ISUID if change.kind == "folder" else _SET_ID
        return "it has a set-user-id, set-group-id or sticky bit" if change.mode & bits else ""

    def _was_git(self, folder: str, name: str) -> bool:
        """Return whether a folder had a `.git` before, by this name or by its own."""
        return any(self._after.had(os.path.join(folder, each)) for each in (name, GIT))

    def obeyed(self, change: Change, *, is_read: bool = True) -> str:
        """Return who executes or obeys a change without having asked for it; empty for nobody.

        Who obeys by name; whom a link or git's configuration leads there; git, where the folder is a
        repository; programs that load it in the place of a source; and whoever is used to execute it. New
        executables are asked about, too, for hooks and lists of tasks may name what is not there yet; but not
        products of tools, which the next build or installation makes again (`Products`). Without `is_read`,
        only its place counts.
        """
        rules = [self._by_name, self._by_pointer, self._by_git, self._in_place_of_source]
        if is_read:
            rules += [self._by_what_is_in_it, self._as_marker, self._as_program, self._as_link]
        return next(filter(None, (rule(change) for rule in rules)), "")

    def _protected(self, path: str) -> str:
        """Return what protects a path: in a folder of packages, nobody's name but git's and the agent's."""
        if not self._may_ask(path):
            return ""
        packages = self._products.packages(path)
        entry = protected_by(f"{self._prefix}{path}", self._more) or ""
        is_others = packages and entry in PROTECTED and entry != GIT
        return protected_by(f"{self._prefix}{packages}", self._more) or "" if is_others else entry

    def _by_name(self, change: Change) -> str:
        entry = self._protected(change.path)
        return entry and f"{PROTECTED.get(entry, 'the agent or its operator')} may obey it ({entry})"

    def _by_pointer(self, change: Change) -> str:
        if not self._elsewhere:
            return ""
        pointer = next(filter(None, map(self._elsewhere.get, (*above_of(change.path), change.path))), "")
        if not pointer and change.act == "removed":
            named = (each for each in self._elsewhere if is_in(each, change.path))
            pointer = next((self._elsewhere[each] for each in named), "")
        return pointer and f"{pointer} names it, or leads to it"

    def _by_git(self, change: Change) -> str:
        parts = change.path.casefold().split("/")
        if REPOSITORY.isdisjoint(parts):
            return ""
        for at, part in enumerate(parts):
            is_obeyed = at == len(parts) - 1 or part in {"hooks", "info"}
            if (
                part in REPOSITORY
                and is_obeyed
                and self._is_repository("/".join(change.path.split("/")[:at]))
            ):
                return "git takes the folder for a repository, and obeys it"
        return ""

    def _is_repository(self, folder: str) -> bool:
        if folder not in self._repositories:
            top = f"{folder}/" if folder else ""
            has = self._after.has
            self._repositories[folder] = has(f"{top}HEAD") and (
                has(f"{top}objects") or has(f"{top}commondir")
            )
        return self._repositories[folder]

    def _by_what_is_in_it(self, change: Change) -> str:
        """Look into a folder that was removed, for what is protected."""
        if change.act != "removed" or change.kind != "folder":
            return ""
        for number, path in enumerate(self._inside(change.path)):
            if number > MAX_REMOVED:
                return "too much is in it to be looked at"
            if entry := self._protected(path):
                return f"{path[len(change.path) + 1 :]} is in it ({entry})"
        return ""

    def _inside(self, folder: str) -> Iterator[str]:
        for path, inner, names in walk(f"{self._root}/{folder}"):
            yield from (f"{path[len(self._root) + 1 :]}/{name}" for name in (*inner, *names))

    def _as_marker(self, change: Change) -> str:
        """Ask about a marker in a folder that held something: all in it would count as made by a tool."""
        folder, _, name = change.path.rpartition("/")
        if change.act != "added" or name not in MARKERS or self._products.is_expected(folder):
            return ""
        return "with it, programs in its folder count as made by a tool"

    def _in_place_of_source(self, change: Change) -> str:
        folder, _, name = change.path.rpartition("/")
        ending = name[name.rfind(".") :]
        if ending not in LOADED_FIRST or change.act == "removed" or self._products.is_in_own(change.path):
            return ""
        stem = name.partition(".")[0] if LOADED_FIRST[ending] == ".py" else name.removesuffix(ending)
        source = f"{stem}{LOADED_FIRST[ending]}"
        is_there = self._after.has(f"{folder}/{source}".lstrip("/"))
        return f"it is loaded in the place of {source}" if is_there else ""

    def _as_program(self, change: Change) -> str:
        is_file = change.act != "removed" and change.kind in {"file", "executable"}
        if not is_file or self._products.is_in_own(change.path):
            return ""
        start = self._start(change)
        if change.kind == "file" and not start.startswith(b"#!"):
            return ""
        return "" if self._products.has(change, start) else "it can be executed"

    def _as_link(self, change: Change) -> str:
        """Ask about a link in the place of a folder or a program, or of a link to one."""
        if change.act == "removed" or change.kind != "link" or not self._after.had(change.path):
            return ""
        is_used = self._after.had_executable(change.path) and not self._products.has(change, b"")
        return "it takes the place of a folder or a program" if is_used else ""

    def _start(self, change: Change) -> bytes:
        with suppress(OSError):
            return start_of(self._layer, change, 4)
        return b"#!"

    def _has_other_names(self, change: Change) -> bool:
        """Return whether a file of the layer could be written by another name, when it was asked about."""
        if change.act == "removed" or change.kind not in {"file", "executable"}:
            return False
        with suppress(OSError):
            return os.lstat(self._layer.content / change.path).st_nlink > 1
        return True
