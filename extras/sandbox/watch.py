"""Watch over the protected files of a folder while a script writes in it.

What is there before a run can be mounted read-only. What a run makes where nothing was cannot be prevented:
it is found afterwards and put aside, before a person's git or editor comes upon it.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path, PurePosixPath
from typing import Final

from skills_agent.sandbox.folder_after import is_program_of_system
from skills_agent.sandbox.protected_files import (
    GIT_FOLDER,
    Findings,
    ProtectedFile,
    ProtectedFiles,
    is_git,
)
from skills_agent.sandbox.quarantine import put_aside
from skills_agent.skills.confined import is_in
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.text import clean_text, one_line
from skills_agent.skills.trees import remove_tree, walk

MAX_PLACES: Final = 300
"""Places that are mounted: each takes the longer, the more there are (100: some 30 ms, 300: 0.4 s)."""
MAX_NAMED: Final = 10
"""Paths in a sentence."""


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
        self.allowed = [inside for inside in insides if inside != "."]
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
            is_within = any(str(parent) in places for parent in PurePosixPath(path).parents)
            is_allowed = any(is_in(path, each) for each in self.allowed)
            if path and not is_allowed and (not is_within or path.rpartition("/")[0] in self._opened):
                found[path] = False
        if len(found) > MAX_PLACES:
            raise ScriptError(
                f"Not run: {self.folder} holds more than {MAX_PLACES} files and folders that other programs "
                f"obey ({shown(list(found)[:3])}, ...), too many to keep a script from. The operator can "
                "choose a smaller workspace, or set workdir = thread."
            )
        for path in (*self._opened, *self.allowed):
            if any(is_in(path, each) for each in found) and (self.folder / path).is_dir():
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

    def changed(self, path: str) -> float:
        """Return when a path of the folder changed (st_ctime_ns); later than ever for one that is gone."""
        with suppress(OSError):
            return os.lstat(os.path.join(self._files.root, path)).st_ctime_ns
        return inf

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
        if is_git(path) or os.path.isdir(os.path.join(self._files.root, path)):
            return ""
        folder = os.path.dirname(path)
        while folder and not os.path.isdir(os.path.join(self._files.root, folder)):
            folder = os.path.dirname(folder)
        return folder


def made_since(
    root: str, before: Findings, after: Findings, allowed: Collection[str], moment: int
) -> Iterator[str]:
    """Yield the protected paths that a run made or replaced, but those in `allowed`.

    Where not all was seen before, what is older than `moment` is not the run's. A folder without any file
    means nothing: another run may have made it, to mount something there.
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
        if name in GIT_FOLDER and name != "HEAD" and head in suspects:  # it is no repository without
            continue
        yield from _but(root, path, allowed, moment if before.unseen else 0)


def _is_same_link(one: ProtectedFile | None, other: ProtectedFile | None) -> bool:
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
    changed = {link for link in links if not _is_same_link(before.places.get(link), after.places.get(link))}
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
    return not is_program_of_system(real) and not any(is_in(real, root) for root in roots)


def _but(root: str, path: str, allowed: Collection[str], moment: int) -> Iterator[str]:
    """Yield a path, or what is in it where a part of it is allowed."""
    full = os.path.join(root, path)
    if any(is_in(path, each) for each in allowed):
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


def shown(paths: Sequence[str]) -> str:
    """Return paths for people and the model, the first of them."""
    named = ", ".join(one_line(clean_text(path).text) for path in paths[:MAX_NAMED])
    return f"{named} and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else named
