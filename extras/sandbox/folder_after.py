"""The folder as it will be when changes are applied to it: all of them, or any (an answer may be no)."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from skills_agent.skills.confined import is_in
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.scripts.programs import SYSTEM

MAX_STEPS: Final = 500
"""Of following one link, and parts of a path that is left: what takes more is taken for a way out."""
MAX_STEPS_OF_ALL: Final = 1_000_000
"""Some seconds of links that were made to be slow."""


class FolderAfter:
    """What is at a path after changes, and where links lead then."""

    def __init__(self, folder: Path, changes: Iterable[Change], workspace: Path | None = None) -> None:
        """Name the folder (links resolved), and the workspace that it is a part of, where links may lead."""
        self._root = os.fspath(folder)
        self._roots = {self._root, os.path.realpath(workspace or folder)}
        self._here = {each.path: each for each in changes if each.act != "removed"}
        self._folded = {each.path.casefold() for each in changes}
        self._new = {each.path for each in changes if each.act == "added"}
        self._gone = {each.path: each.kind for each in changes if each.act == "removed"}
        self._links: dict[str, str] = {}
        self._steps_left = MAX_STEPS_OF_ALL

    @property
    def links(self) -> list[str]:
        """Return the links of the folder that were met on a way."""
        return [os.path.relpath(each, self._root) for each in self._links if is_in(each, self._root)]

    def has(self, path: str) -> bool:
        """Return whether something is at a path, in any letter case, if some changes are applied, or all."""
        return path.casefold() in self._folded or os.path.lexists(f"{self._root}/{path}")

    def had(self, path: str) -> bool:
        """Return whether something was at a path before; the folder may have the changes already."""
        return path in self._gone or (path not in self._new and os.path.lexists(f"{self._root}/{path}"))

    def had_executable(self, path: str) -> bool:
        """Return whether that was a folder, a program, or a link to one (where the folder has that)."""
        kind = self._gone.get(path)
        return kind in {"folder", "executable"} if kind else os.access(f"{self._root}/{path}", os.X_OK)

    def is_new_file(self, path: str) -> bool:
        """Return whether one of the changes adds a file at a path."""
        change = self._here.get(path)
        return change is not None and change.act == "added" and change.kind in {"file", "executable"}

    def leads_out(self, link: Change) -> bool:
        """Return whether a link leads out of the folder, whichever of the other changes are applied.

        Programs of the system are no way out: every virtual environment has a link to its Python.
        """
        outside = (end for end in self.ends(link) if not any(is_in(end, root) for root in self._roots))
        return any(not is_program_of_system(end) for end in outside)

    def ends_inside(self, link: Change) -> Iterator[str]:
        """Yield the paths in the folder that a link leads to, as far as other changes are applied."""
        for end in self.ends(link):
            if is_in(end, self._root) and end != self._root:
                yield os.path.relpath(end, self._root)

    def ends(self, link: Change) -> set[str]:
        """Return where a link leads: one place for each way in which the changes on its way can be applied.

        What is not there counts as written. A link in circles leads to none, one of too many steps to `/`.
        """
        start = os.path.dirname(f"{self._root}/{link.path}")
        left = [_step(start, link.target, ())]
        seen, found = set(left), set[str]()
        while left:
            here, rest = left.pop()
            self._steps_left -= 1
            if len(seen) > MAX_STEPS or len(rest) > MAX_STEPS or self._steps_left < 0:
                return {os.sep}
            if not rest:
                found.add(here)
                continue
            for step in self._steps(here, rest[0], rest[1:]):
                if step not in seen:
                    seen.add(step)
                    left.append(step)
        return found

    def _steps(self, here: str, name: str, rest: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        if name == "..":
            yield os.path.dirname(here), rest
            return
        path = os.path.join(here, name)
        for target in self._targets(path):
            yield (path, rest) if target is None else _step(here, target, rest)

    def _targets(self, path: str) -> Iterator[str | None]:
        """Yield what is written in a link that may be at a path, and None where something else may be."""
        if not (link := self._links.get(path)):
            with suppress(OSError):
                link = self._links[path] = os.readlink(path)
        yield link
        change = self._here.get(path[len(self._root) + 1 :]) if is_in(path, self._root) else None
        if change:
            yield change.target if change.kind == "link" else None


def _step(here: str, target: str, rest: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    parts = tuple(part for part in target.split("/") if part not in {"", "."})
    return (os.sep if target.startswith("/") else here), (*parts, *rest)


def is_program_of_system(path: str) -> bool:
    """Return whether a path is a program of the system, or of the agent's Python."""
    systems = (*SYSTEM, os.path.realpath(sys.base_prefix))
    is_systems = any(is_in(path, system) for system in systems)
    return is_systems and os.path.isfile(path) and os.access(path, os.X_OK)
