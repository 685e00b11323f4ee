"""The protected files of a folder that scripts write in: found before a run, and looked at after it.

What is there before a run can be mounted read-only. What a run makes where nothing was cannot be prevented:
it is found afterwards and put aside, before a person's git or editor comes upon it. Paths are text here,
because thousands of folders are looked at before a script starts.
"""

import errno
import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from glob import escape
from hashlib import file_digest
from importlib.util import find_spec
from math import inf
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from skills_agent.sandbox.quarantine import put_aside
from skills_agent.skills.confined import open_folder_beneath
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import is_protected_name, protected_by
from skills_agent.skills.scripts.git_config import MAX_CONFIGS, global_configs, named_in
from skills_agent.skills.scripts.programs import SYSTEM
from skills_agent.skills.text import clean_text, one_line
from skills_agent.skills.trees import give_rights, remove_tree, walk

SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages", ".tox", ".nox", ".mypy_cache"})
"""Folders of other people's packages, or of what can be made again."""
CACHE: Final = "__pycache__"
"""What Python runs in the place of the code beside it."""
MAX_FOLDERS: Final = 20_000
"""Folders of a look before a run, the nearest to the top first."""
MAX_FOLDERS_AFTER: Final = 200_000
"""The same after a run, which could hide something behind many folders."""
MAX_PLACES: Final = 300
"""Places that are mounted: each takes the longer, the more there are (100: some 30 ms, 300: 0.4 s)."""
MAX_SKIPPED_AFTER: Final = 50_000
"""Folders in `SKIPPED` that are looked at after a run, in addition: for repositories alone."""
MAX_NAMED: Final = 10
"""Paths in a sentence."""
MAX_POINTER: Final = 64 * 1024
_GIT_FOLDER: Final = ("HEAD", "config", "config.worktree", "commondir", "hooks", "info")
"""What git obeys of a repository without a work tree; it takes any folder with HEAD and objects for one."""
_MAX_LINKS: Final = 40
"""Links on the way to one place: the kernel follows no more."""


class Place(NamedTuple):
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

    places: Mapping[str, Place]
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
        places: dict[str, Place] = {}
        for look in seen.values():
            for path in look.protected:
                self._add(path, places, before)
        for git in [path for path in places if _is_git(path)]:
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
            protected += [f"{folder}/{name}".lstrip("/") for name in _GIT_FOLDER if name in names]
        caches = (f"{folder}/{CACHE}".lstrip("/"),) if CACHE in names else ()
        return _FolderLook(
            status.st_ctime_ns, tuple(inner), tuple(skipped), tuple(protected), tuple(links), caches
        )

    def _is_protected(self, name: str, path: str) -> bool:
        if is_protected_name(name, self._more):
            return True
        is_last = bool(self._last_names) and is_protected_name(name, self._last_names)
        return is_last and protected_by(path, self._more) is not None

    def _add(self, path: str, places: dict[str, Place], before: Findings | None, pointer: str = "") -> None:
        """Add a place, and the links on the way to where it leads: each could be led elsewhere."""
        if path in places:
            return
        full = os.path.join(self.root, path)
        with suppress(OSError):
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                places[path] = Place(status.st_ino, os.readlink(full), self.inside(path), pointer)
                for link in self._links_from(path):
                    self._add(link, places, before, path)
                return
            known = before.places.get(path) if before else None
            has_names = stat.S_ISREG(status.st_mode) and (status.st_nlink > 1 or (known and known.content))
            places[path] = Place(status.st_ino, "", "", pointer, self._digest(path) if has_names else "")

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
            for named in named_in(self._read(config)):
                for path in filter(None, (self.inside(named.text, start) for start in {top, *own})):
                    is_file = os.path.isfile(os.path.join(self.root, path))
                    if not is_file and not named.may_be_folder:
                        continue
                    yield path
                    if is_file and named.is_config and path not in configs and len(configs) < MAX_CONFIGS:
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
        return os.path.relpath(real, self.root) if real != self.root and _is_in(real, self.root) else ""


def made_since(
    root: str, before: Findings, after: Findings, allowed: Collection[str], moment: int
) -> Iterator[str]:
    """Yield the protected paths that a run made or replaced since `moment`, but those in `allowed`.

    A folder without any file means nothing: another run may have made it, to mount something there.
    """
    new = {path for path, place in after.places.items() if before.places.get(path) != place}
    replaced = {path for path in new if not _is_same_link(before.places.get(path), after.places[path])}
    suspects = replaced.union(*(_leading(path, before, after) for path in new - replaced))
    suspects.update(path for path in after.repositories if _has_changed(os.path.join(root, path), moment))
    for path in sorted(suspects):
        folder, _, name = path.rpartition("/")
        head = f"{folder}/HEAD".lstrip("/")
        if path in replaced and after.places[path].pointer in replaced:
            continue
        if name in _GIT_FOLDER and name != "HEAD" and head in suspects:  # it is no repository without
            continue
        yield from _but(root, path, allowed, moment if before.unseen else 0)


def _is_same_link(one: Place | None, other: Place | None) -> bool:
    """Return whether two places are one link, wherever it leads."""
    return bool(one and other and one.link and one._replace(leads="") == other._replace(leads=""))


def _leading(path: str, before: Findings, after: Findings) -> set[str]:
    """Return what makes a link lead elsewhere than before: links on its way, else what is there now."""
    links = {
        each
        for places in (before.places, after.places)
        for each, place in places.items()
        if place.link and place.pointer == path
    }
    changed = {each for each in links if not _is_same_link(before.places.get(each), after.places.get(each))}
    return changed or {after.places[path].leads} - {""}


def _has_changed(path: str, moment: int) -> bool:
    """Return whether a path, or anything in it, has changed since."""
    inner = (
        os.path.join(folder, each) for folder, folders, names in walk(path) for each in (*folders, *names)
    )
    with suppress(OSError):
        return any(os.lstat(each).st_ctime_ns >= moment for each in (path, *inner))
    return True


def _leads_out(path: str, roots: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    systems = (*SYSTEM, os.path.realpath(sys.base_prefix))
    is_program = (
        any(_is_in(real, each) for each in systems) and os.path.isfile(real) and os.access(real, os.X_OK)
    )
    return not is_program and not any(_is_in(real, root) for root in roots)


def _is_in(real: str, root: str) -> bool:
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _is_git(path: str) -> bool:
    return os.path.basename(path).casefold() == ".git"


def _is_of_git(path: str) -> bool:
    return _is_git(path) or os.path.basename(path) in _GIT_FOLDER


def _but(root: str, path: str, allowed: Collection[str], moment: int) -> Iterator[str]:
    """Yield a path, or what is in it where a part of it is allowed."""
    full = os.path.join(root, path)
    if any(path == each or path.startswith(f"{each}/") for each in allowed):
        return
    with suppress(OSError):  # it is gone
        if any(each.startswith(f"{path}/") for each in allowed) and not os.path.islink(full):
            for name in sorted(os.listdir(full)):
                yield from _but(root, f"{path}/{name}", allowed, moment)
        elif os.lstat(full).st_ctime_ns >= moment and _holds_a_file(full):
            yield path


def _holds_a_file(path: str) -> bool:
    if os.path.islink(path) or not os.path.isdir(path):
        return True
    return any(
        names
        or any(
            os.path.islink(f"{folder}/{each}") or not os.access(f"{folder}/{each}", os.R_OK) for each in inner
        )
        for folder, inner, names in walk(path)
    ) or not os.access(path, os.R_OK)


def own_entries(workspace: Path, path: str, folders: Iterable[Path]) -> tuple[str, ...]:
    """Return entries for what the agent itself runs and reads of a workspace.

    That is its package (an editable install), its Python, the folders of `path` (as in PATH) with the
    environments they belong to, and `folders`.
    """
    places = [*folders, *_package(), Path(sys.prefix), Path(sys.base_prefix)]
    for text in path.split(os.pathsep):
        place = Path(os.path.abspath(text))
        is_environment = os.path.exists(place.parent / "pyvenv.cfg") or place.parent.name == "node_modules"
        places.append(place.parent if is_environment else place)
    root = os.path.realpath(workspace)
    insides = (os.path.relpath(os.path.realpath(place), root) for place in places)
    return tuple(
        dict.fromkeys(f"/{escape(each)}" for each in insides if each.split("/")[0] not in {".", ".."})
    )


@cache
def _package() -> tuple[Path, ...]:
    specs = (find_spec(f"skills_agent.{name}") for name in ("graph", "nodes", "skills", "state"))
    return tuple(Path(each) for spec in specs if spec for each in spec.submodule_search_locations or ())


def shown(paths: Sequence[str]) -> str:
    """Return paths for people and the model, the first of them."""
    named = ", ".join(one_line(clean_text(path).text) for path in paths[:MAX_NAMED])
    return f"{named} and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else named


class Watch:
    """Watches over the protected files of one folder while a script writes in it."""

    def __init__(
        self, folder: Path, files: ProtectedFiles, named: Iterable[Path], before: Findings | None = None
    ) -> None:
        """Look first, but for `before`, which a look found once.

        A person approved that the script writes what is `named` (absolute, links resolved).
        """
        self.folder = folder
        self.notices: list[str] = []
        """What the person and the model have to know, in sentences."""
        self._files = files
        insides = [os.path.relpath(path, files.root) for path in named if path.is_relative_to(files.root)]
        self.allowed = [each for each in insides if each != "."]
        self._opened = [above for each in self.allowed if (above := self._above(each))]
        self.before = self._after = before or files.look(self._opened)

    def mounts(self) -> list[tuple[Path, bool]]:
        """Return what is to be mounted in the folder, and whether to write; the outermost first."""
        places = self.before.places
        found: dict[str, bool] = {}
        by_rank = sorted(places, key=lambda path: (".git" not in path, path.count("/")))
        on_the_way = {path for path, place in places.items() if place.link and place.pointer}
        by_rank = [path for path in by_rank if path not in on_the_way]
        for path in [places[path].leads if places[path].link else path for path in by_rank]:
            is_within = any(str(each) in places for each in PurePosixPath(path).parents)
            is_allowed = any(f"{path}/".startswith(f"{each}/") for each in self.allowed)
            if path and not is_allowed and (not is_within or path.rpartition("/")[0] in self._opened):
                found[path] = False
        if len(found) > MAX_PLACES:
            raise ScriptError(
                f"Not run: {self.folder} holds more than {MAX_PLACES} files and folders that other programs "
                f"obey ({shown(list(found)[:3])}, ...), too many to keep a script from. The operator can "
                "choose a smaller workspace, or set workdir = thread."
            )
        for path in (*self._opened, *self.allowed):
            if any(f"{path}/".startswith(f"{each}/") for each in found) and (self.folder / path).is_dir():
                found[path] = True
        return [(self.folder / path, found[path]) for path in sorted(found, key=lambda path: path.count("/"))]

    def made_since(self, moment: int, named: Iterable[Path]) -> list[str]:
        """Return the protected paths that the run made or replaced, but those that any run may write now."""
        root = self._files.root
        allowed = [os.path.relpath(path, root) for path in named if path.is_relative_to(root)]
        after = self._after = self._files.look(self._opened, self.before)
        if after.unseen > self.before.unseen:
            self.notices.append(
                f"{after.unseen:,} folders that the script made were not looked at: they are too many, too "
                "deep or not readable. They may hold a .git that makes git run programs."
            )
        return list(made_since(root, self.before, after, allowed, moment))

    def links_out(self, workspace: Path | None, moment: int, last: float = inf) -> dict[str, str]:
        """Return the links that the run made until `last` and that lead out, with what is in them.

        Programs of the system are no way out: every virtual environment has a link to its Python.
        """
        root, found = self._files.root, {}
        roots = {root, os.path.realpath(workspace or root)}
        for path in self._after.links:
            full = os.path.join(root, path)
            with suppress(OSError):  # it is gone
                if moment <= os.lstat(full).st_ctime_ns <= last and _leads_out(full, roots):
                    found[path] = os.readlink(full)
        return found

    def cached_since(self, moment: int) -> list[str]:
        """Return what the run left in caches of Python, or for one."""
        found: list[str] = []
        for path in self._after.caches:
            full = os.path.join(self._files.root, path)
            with suppress(OSError):  # it is gone
                is_new = os.lstat(full).st_ctime_ns >= moment
                if os.path.islink(full) or not os.path.isdir(full):
                    found += [path] * is_new
                    continue
                with os.scandir(full) as entries:
                    for entry in entries:
                        changed = entry.stat(follow_symlinks=False).st_ctime_ns
                        if not entry.is_dir(follow_symlinks=False) and (is_new or changed >= moment):
                            found.append(f"{path}/{entry.name}")
        return found

    def remove(self, workspace: Path, paths: Iterable[str]) -> None:
        """Remove what a run made. Raises OSError for what stays."""
        remove_tree(Path(self.put_aside(workspace, paths)))

    def put_aside(self, workspace: Path, paths: Iterable[str]) -> str:
        """Move them into the agent's quarantine; return the folder."""
        links = {path: place.link for path, place in self.before.places.items() if place.link}
        return put_aside(workspace, self._files.root, paths, links)

    def _above(self, path: str) -> str:
        """Return the folder that a file is made or replaced in; empty for what is a folder itself."""
        if _is_git(path) or os.path.isdir(os.path.join(self._files.root, path)):
            return ""
        folder = os.path.dirname(path)
        while folder and not os.path.isdir(os.path.join(self._files.root, folder)):
            folder = os.path.dirname(folder)
        return folder
