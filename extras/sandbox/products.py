"""What tools make and make again: packages, builds, caches. Nobody executes it without having asked."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from skills_agent.sandbox.obeyed import MAX_POINTER, SKIPPED
from skills_agent.skills.confined import read_at_most, read_beneath
from skills_agent.skills.scripts.changes import Change

PACKAGES: Final = SKIPPED
"""Folders of other people's packages, or of what can be made again, whatever is in them."""
BUILDS: Final = frozenset(
    {
        *("build", "dist", "out", "target", "obj", "_build", "zig-out", ".next", ".nuxt"),
        *(".eggs", "coverage", "vendor", "Pods", "deps"),
    }
)
"""Folders that builds and installations fill; in some projects they hold what somebody wrote."""
MARKERS: Final = ("pyvenv.cfg", "conda-meta", "CACHEDIR.TAG", "CMakeCache.txt")
"""What a tool puts into a folder of its own: virtual environments; caches, and Cargo's builds; CMake's."""
_COMPILED: Final = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
MAX_INDEX: Final = 64 << 20


class Products:
    """Tells products from what people keep in a folder, as it was before a run.

    A name says little: `build/` may hold a script that a person wrote, and runs. So nothing that git tracks
    is a product, in any folder. Where no repository says what is tracked, only a folder of packages, one with
    the marker of its tool, and what is new in a folder of builds are products. A marker that a run puts into
    a folder that held something proves nothing; the judge asks about it.
    """

    def __init__(self, folder: Path, changes: Iterable[Change], originals: Path | None = None) -> None:
        self._root = os.fspath(folder)
        """`folder` may have the changes already: then `originals` has the programs that are no product."""
        self._originals = originals or folder
        self._new_folders = {each.path for each in changes if each.act == "added" and each.kind == "folder"}
        gone = {each.path for each in changes if each.act == "removed"}
        self._new = {each.path for each in changes if each.act == "added"} - gone
        self._marked: dict[str, bool] = {}
        self._tracked: dict[str, bool] = {}
        self._indexes: dict[str, tuple[str, bytes | None]] = {}

    def packages(self, path: str) -> str:
        """Return the outermost folder of packages that a path is in; empty for none."""
        parts = path.split("/")
        at = next((at for at, part in enumerate(parts[:-1], 1) if part in PACKAGES), 0)
        return "/".join(parts[:at])

    def is_in_own(self, path: str) -> bool:
        """Return whether a path is in a folder that a tool made for itself, and git does not track it."""
        own = self.packages(path) or next((each for each in above_of(path) if self._is_marked(each)), "")
        return bool(own) and not (self._is_tracked(own) and self.tracks(path))

    def is_others(self, folder: str) -> bool:
        """Return whether a folder is of packages, or in one, and git tracks nothing there."""
        own = self.packages(f"{folder}/.")
        return bool(own) and not self._is_tracked(own)

    def has(self, change: Change, start: bytes) -> bool:
        """Return whether an executable file is a product; `start` is how it begins."""
        tracked = self.tracks(change.path)
        if tracked or self.is_in_own(change.path):
            return not tracked
        is_build = any(each.rpartition("/")[2] in BUILDS for each in above_of(change.path))
        if tracked is None:
            return is_build and change.act == "added"
        return is_build or (start.startswith(_COMPILED) and not self._was_other(change.path))

    def _was_other(self, path: str) -> bool:
        """Return whether something that nobody compiled was at a path: a script, or a link."""
        with suppress(OSError):
            start = read_beneath(self._originals, path, 4, follow=False)
            return bool(start) and not start.startswith(_COMPILED)
        return path not in self._new and os.path.islink(self._originals / path)

    def is_expected(self, folder: str) -> bool:
        """Return whether a marker may come into a folder: it is of a tool, held nothing, or is the top."""
        if not folder or folder in self._new_folders or self.packages(f"{folder}/."):
            return True
        with suppress(OSError):
            if all(f"{folder}/{name}" in self._new for name in os.listdir(f"{self._root}/{folder}")):
                return True
        return folder.rpartition("/")[2] in BUILDS and self.tracks(f"{folder}/") is False

    def tracks(self, path: str) -> bool | None:
        """Return whether git tracks a path, or with `/` at its end anything in it; None without a repository.

        The names stand in git's index as they are; where they do not (version 4, a split index), all may be
        tracked.
        """
        top, index = self._index(os.path.dirname(f"{self._root}/{path.rstrip('/')}"))
        if index is None:
            return None
        inside = os.fsencode(f"{self._root}/{path}"[len(top.rstrip("/")) + 1 :])
        return index == b"?" or (inside if path.endswith("/") else inside + b"\0") in index

    def _is_tracked(self, folder: str) -> bool:
        """Return whether git tracks anything in a folder; once, for that reads through the index."""
        if folder not in self._tracked:
            self._tracked[folder] = bool(self.tracks(f"{folder}/"))
        return self._tracked[folder]

    def _is_marked(self, folder: str) -> bool:
        if folder not in self._marked:
            markers = [f"{folder}/{each}" for each in MARKERS]
            new = self._new.intersection(markers)
            there = (each for each in markers if each not in new and os.path.lexists(f"{self._root}/{each}"))
            self._marked[folder] = bool(new) if folder in self._new_folders else any(there)
        return self._marked[folder]

    def _index(self, folder: str) -> tuple[str, bytes | None]:
        """Return the top of the repository that a folder is in, and its index (`?`: it cannot be read)."""
        if folder not in self._indexes:
            git = f"{folder}/.git"
            if os.path.lexists(git):
                self._indexes[folder] = folder, _read_index(git)
            else:
                above = os.path.dirname(folder)
                self._indexes[folder] = ("", None) if above == folder else self._index(above)
        return self._indexes[folder]


def above_of(path: str) -> Iterator[str]:
    """Yield the folders that a path is in, the outermost first, without the top."""
    parts = path.split("/")
    return ("/".join(parts[:at]) for at in range(1, len(parts)))


def _read_index(git: str) -> bytes:
    with suppress(OSError):
        if os.path.isfile(git):  # of a worktree or a submodule: `gitdir: <path>`
            pointer = read_beneath(Path(git).parent, ".git", MAX_POINTER)
            git = os.path.join(os.path.dirname(git), os.fsdecode(pointer[len(b"gitdir:") :].strip()))
        names = os.listdir(git)
        if "index" not in names:
            return b""
        index = read_at_most(Path(git), "index", MAX_INDEX)
        is_plain = index[4:8] != b"\0\0\0\4" and not any(name.startswith("sharedindex") for name in names)
        return index if is_plain else b"?"
    return b"?"
