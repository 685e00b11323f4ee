"""The protected files of a folder, as they are at one moment.

Paths are text here, because thousands of folders are looked at before a script starts.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.sandbox.git_config import FOLDERS_OR_FILES, INCLUDES, MAX_CONFIGS, global_configs, named_in
from skills_agent.skills.confined import is_in, open_folder_beneath
from skills_agent.skills.policy.protected import is_protected_name, protected_by
from skills_agent.skills.trees import give_rights

SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages", ".tox", ".nox", ".mypy_cache"})
"""Folders of other people's packages, or of what can be made again."""
CACHE: Final = "__pycache__"
"""What Python runs in the place of the code beside it."""
MAX_FOLDERS: Final = 20_000
"""Folders of a look before a run, the nearest to the top first."""
MAX_FOLDERS_AFTER: Final = 200_000
"""The same after a run, which could hide something behind many folders."""
MAX_SKIPPED_AFTER: Final = 50_000
"""Folders in `SKIPPED` that are looked at after a run, in addition: for repositories alone."""
MAX_POINTER: Final = 64 * 1024
GIT_FOLDER: Final = ("HEAD", "config", "config.worktree", "commondir", "hooks", "info")
"""What git obeys of a repository without a work tree; it takes any folder with HEAD and objects for one."""
_MAX_LINKS: Final = 40
"""Links on the way to one place: the kernel follows no more."""


class ProtectedFile(NamedTuple):
    """A protected file or folder."""

    inode: int
    link: str = ""
    """What is written in it, if it is a link."""
    leads: str = ""
    """Where the link leads in the end, if that is in the folder."""
    pointer: str = ""
    """The `.git` or the link that names it, if its own name says nothing."""
    content: str = ""
    """A digest, for a file of several names (hard links): by another name, a script can write it."""


class Findings(NamedTuple):
    """The protected files of a folder at one moment."""

    places: Mapping[str, ProtectedFile]
    """By the path in the folder."""
    unseen: int
    """How many folders were not looked at: too many, or not readable."""
    skipped: frozenset[str]
    """Folders of `SKIPPED`."""
    repositories: tuple[str, ...] = ()
    """After a run, those in folders that were skipped before it; nobody knows which were there."""
    links: tuple[str, ...] = ()
    """After a run, all that are no protected files."""
    caches: tuple[str, ...] = ()
    """After a run, all that is called `CACHE`."""


class _FolderLook(NamedTuple):
    """What was seen of one folder."""

    changed: int
    """Its change time (st_ctime_ns), which no program can set."""
    inner: tuple[str, ...]
    skipped: tuple[str, ...]
    protected: tuple[str, ...]
    links: tuple[str, ...]
    caches: tuple[str, ...]


class ProtectedFiles:
    """Finds the protected files of a folder. What has not changed since the last look costs one `stat`."""

    def __init__(self, root: Path, more: Iterable[str] = (), own: str = "") -> None:
        """Name the folder, more entries, and the agent's own folder in it, which is not looked at."""
        self._own = own
        self.root = os.path.realpath(root)
        self._more = tuple(more)
        self._last_names = tuple(entry.rpartition("/")[2] for entry in self._more if "/" in entry)
        self._known: dict[str, _FolderLook] = {}

    def look(self, opened: Collection[str] = (), before: Findings | None = None) -> Findings:
        """Return what is protected now; of the folders in `opened`, all that is in them.

        After a run, `before` is what was found before it: only what was skipped then is skipped again. A
        folder of this user that a run made unreadable is made readable.
        """
        seen, unseen = self._walk([""], before, MAX_FOLDERS_AFTER if before else MAX_FOLDERS)
        skipped_before = before.skipped if before else ()
        hidden, _ = self._walk(skipped_before, before, MAX_SKIPPED_AFTER)
        self._known = {**self._known, **seen, **hidden} if unseen or not before else {**seen, **hidden}
        places: dict[str, ProtectedFile] = {}
        for look in seen.values():
            for path in look.protected:
                self._add(path, places, before)
        for git in [path for path in places if is_git(path)]:
            for path in self._named_by(git):
                self._add(path, places, before, git)
        for folder in opened:
            with suppress(OSError):
                for name in os.listdir(os.path.join(self.root, folder)):
                    self._add(f"{folder}/{name}", places, before)
        skipped = (path for look in seen.values() for path in look.skipped)
        repositories = (path for look in hidden.values() for path in look.protected)
        looks = (*seen.values(), *hidden.values()) if before else ()
        return Findings(
            places,
            unseen,
            frozenset(skipped),
            tuple(filter(_is_of_git, repositories)),
            tuple(path for look in looks for path in look.links),
            tuple(path for look in looks for path in look.caches),
        )

    def _walk(
        self, tops: Iterable[str], before: Findings | None, limit: int
    ) -> tuple[dict[str, _FolderLook], int]:
        """Look at every folder; return also how many were left out."""
        seen: dict[str, _FolderLook] = {}
        folders, unseen = [*tops], 0
        for folder in folders:
            if len(seen) >= limit:
                unseen += 1
                continue
            try:
                look = seen[folder] = self._look_at(folder)
            except OSError as error:
                unseen += error.errno not in {errno.ENOENT, errno.ENOTDIR}
                continue
            folders += look.inner
            folders += [path for path in look.skipped if before and path not in before.skipped]
        return seen, unseen

    def _look_at(self, folder: str) -> _FolderLook:
        path = os.path.join(self.root, folder)
        status = os.stat(path, follow_symlinks=False)
        known = self._known.get(folder)
        if known and known.changed == status.st_ctime_ns:
            return known
        if not os.access(path, os.R_OK | os.X_OK) and status.st_uid == os.geteuid():
            above = open_folder_beneath(Path(self.root), os.path.dirname(folder))
            try:
                give_rights(above, os.path.basename(folder) or ".")
            finally:
                os.close(above)
        inner: list[str] = []
        skipped: list[str] = []
        protected, links, names = [], [], set()
        with os.scandir(path) as entries:
            for entry in entries:
                here = f"{folder}/{entry.name}" if folder else entry.name
                names.add(entry.name)
                if here == self._own:
                    continue
                if self._is_protected(entry.name, here):
                    protected.append(here)
                elif entry.is_dir(follow_symlinks=False):
                    (skipped if entry.name in SKIPPED else inner).append(here)
                elif entry.is_symlink():
                    links.append(here)
        if "HEAD" in names and names & {"objects", "commondir"}:
            protected += [f"{folder}/{name}".lstrip("/") for name in GIT_FOLDER if name in names]
        caches = (f"{folder}/{CACHE}".lstrip("/"),) if CACHE in names else ()
        return _FolderLook(
            status.st_ctime_ns, tuple(inner), tuple(skipped), tuple(protected), tuple(links), caches
        )

    def _is_protected(self, name: str, path: str) -> bool:
        if is_protected_name(name, self._more):
            return True
        is_last = bool(self._last_names) and is_protected_name(name, self._last_names)
        return is_last and protected_by(path, self._more) is not None

    def _add(
        self, path: str, places: dict[str, ProtectedFile], before: Findings | None, pointer: str = ""
    ) -> None:
        """Add a place, and the links on the way to where it leads: each could be led elsewhere."""
        if path in places:
            return
        full = os.path.join(self.root, path)
        with suppress(OSError):
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                places[path] = ProtectedFile(status.st_ino, os.readlink(full), self.inside(path), pointer)
                for link in self._links_from(path):
                    self._add(link, places, before, path)
                return
            known = before.places.get(path) if before else None
            has_names = stat.S_ISREG(status.st_mode) and (status.st_nlink > 1 or (known and known.content))
            places[path] = ProtectedFile(
                status.st_ino, "", "", pointer, self._digest(path) if has_names else ""
            )

    def _links_from(self, path: str) -> list[str]:
        """Return the links in the folder that a link leads over, itself included."""
        links: list[str] = []
        here, rest = "", path.split("/")
        while rest and len(links) < _MAX_LINKS:
            step = os.path.normpath(os.path.join(here, rest.pop(0)))
            if step.startswith(".."):
                break
            try:
                target = os.readlink(os.path.join(self.root, step))
            except OSError:
                here = step
                continue
            links.append(step)
            if os.path.isabs(target):
                here, target = "", os.path.relpath(target, self.root)
            rest = [*target.split("/"), *rest]
        return links

    def _named_by(self, git: str) -> Iterator[str]:
        """Yield what a `.git` names in the folder: a worktree's repository, hooks, programs and so on."""
        top, home = os.path.dirname(git), git
        if os.path.isfile(os.path.join(self.root, git)):
            home = self.inside(self._read(git).removeprefix("gitdir:").strip(), top)
        common = home and self.inside(self._read(f"{home}/commondir").strip() or ".", home)
        yield from filter(None, (home, common))
        if not common:
            return
        configs = [f"{common}/config", f"{home}/config.worktree", *global_configs()]
        for config in configs:
            own = () if os.path.isabs(config) else (os.path.dirname(config),)
            for text, keys in named_in(self._read(config)).items():
                for path in filter(None, (self.inside(text, start) for start in {top, *own})):
                    is_file = os.path.isfile(os.path.join(self.root, path))
                    if not is_file and not keys & FOLDERS_OR_FILES:
                        continue
                    yield path
                    if is_file and keys & INCLUDES and path not in configs and len(configs) < MAX_CONFIGS:
                        configs.append(path)

    def _read(self, path: str) -> str:
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(os.path.join(self.root, path), flags), "rb") as file:
                return os.fsdecode(file.read(MAX_POINTER))
        return ""

    def _digest(self, path: str) -> str:
        with suppress(OSError), open(os.path.join(self.root, path), "rb") as file:
            return file_digest(file, "sha256").hexdigest()
        return "unreadable"

    def inside(self, target: str, start: str = "") -> str:
        """Return a path in the folder, links resolved; empty for one that is outside, or not there."""
        if "\0" in target:
            return ""
        full = os.path.join(self.root, start, target)
        real = os.path.realpath(full) if os.path.exists(full) else ""
        return os.path.relpath(real, self.root) if real != self.root and is_in(real, self.root) else ""


def is_git(path: str) -> bool:
    """Return whether a path is called `.git`, in any letter case."""
    return os.path.basename(path).casefold() == ".git"


def _is_of_git(path: str) -> bool:
    return is_git(path) or os.path.basename(path) in GIT_FOLDER
