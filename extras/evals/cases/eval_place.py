"""Where a file of cases stands: the skill that it is about, and which paths its cases may name.

A case of a stranger names files of its own folder, or of its skill's, and nothing else: not by `..`, not by
a link.
"""

import os
import posixpath
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.evals.cases.case import LaidFile
from skills_agent.skills.confined import ConfinedError, OutsideRootError, is_beneath, open_beneath, parts_of
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import Place, read_metadata
from skills_agent.skills.trees import walk

SKILL_FILE: Final = "SKILL.md"
EVALS_FOLDER: Final = "evals"
MAX_LAID: Final = 10_000
"""Files of one case, and of one folder that is laid."""


class PathFault(ValueError):  # noqa: N818 - a reason, which the reader puts into a sentence with its place
    """Why a path of a case is not taken."""


class EvalPlace(NamedTuple):
    """Where a file of cases stands."""

    file: Path
    """Absolute."""
    root: Path
    """The folder that its paths never leave: the skill's, or its own."""
    skill: str
    """The name of the skill that has it; empty: none has."""
    label: str
    """The first part of the ids of its cases."""

    def source(self, path: str, *bases: Path) -> str:
        """Return the absolute path of a file or folder that a case names, relative to the first of `bases`
        that has it; without any, to the file's own folder.

        Raises PathFault.
        """
        fault = ""
        for base in bases or (self.file.parent,):
            try:
                return os.fspath(self.root / self._beneath(path, base))
            except FileNotFoundError:
                fault = fault or f"there is no `{_shown(path)}`"
            except ConfinedError as error:
                fault = f"`{_shown(path)}` {error.reason}"
            except OSError as error:
                fault = fault or f"`{_shown(path)}` cannot be read ({error.strerror})"
        raise PathFault(fault)

    def _beneath(self, path: str, base: Path) -> str:
        if "\0" in path or "\\" in path:  # a path of Windows leads elsewhere there
            raise OutsideRootError(path)
        relative = posixpath.normpath(posixpath.join(base.relative_to(self.root).as_posix(), path))
        parts_of(relative)
        place = self.root / relative
        if not place.is_dir():
            os.close(open_beneath(self.root, relative))
        elif not is_beneath(self.root, place) or relative == ".":
            raise OutsideRootError(path)
        else:
            _check_folder(self.root, place)
        return relative


def place_of(file: Path) -> EvalPlace:
    """Return where a file of cases stands. A skill has it in its `evals/`, or right beside SKILL.md."""
    file = Path(os.path.abspath(file))  # noqa: PTH100 - a link to the file stays one
    parents = [*file.parents][:3]
    folder = next((each for each in parents if (each / SKILL_FILE).is_file()), None)
    if folder is None or (folder != file.parent and EVALS_FOLDER not in file.relative_to(folder).parts):
        return EvalPlace(file, file.parent, "", safe_id(file.stem))
    skill = _skill_name(folder)
    label = skill if file.stem == EVALS_FOLDER else f"{skill}.{file.stem}"
    return EvalPlace(file, folder, skill, safe_id(label))


def laid_path(path: str) -> str:
    """Return a path of the fresh workspace, or raise PathFault for one that leads out of it.

    `.agent` is refused: what stands there are settings, and no case may change those of its own run.
    """
    try:
        parts = parts_of(path)
    except OutsideRootError as error:
        raise PathFault(f"`{_shown(path)}` {error.reason}") from error
    if not parts or "\\" in path or any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise PathFault(f"`{_shown(path)}` is no path of a file in the workspace")
    if parts[0].casefold() in {".agent", ".claude"} and parts[1:2] != ("skills",):
        raise PathFault(f"`{_shown(path)}` is a place of settings, which no case may lay")
    return "/".join(parts)


def check_laid(files: tuple[LaidFile, ...]) -> None:
    """Raise PathFault where two files need one place, or there are too many."""
    if len(files) > MAX_LAID:
        raise PathFault(f"it lays more than {MAX_LAID:,} files")
    paths = [each.path.casefold() for each in files]
    if twice := [path for path, number in Counter(paths).items() if number > 1]:
        raise PathFault(f"`{_shown(twice[0])}` is laid where another file is")
    laid = set(paths)
    for path in paths:
        if any(path[:index] in laid for index, character in enumerate(path) if character == "/"):
            raise PathFault(f"`{_shown(path)}` is laid where another file is")


def safe_id(text: str, limit: int = 64) -> str:
    """Return a text as a part of an id: what file names take everywhere, never empty."""
    kept = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in text)
    while "--" in kept:
        kept = kept.replace("--", "-")
    return kept.strip(".-")[:limit].strip(".-") or "case"


def _skill_name(folder: Path) -> str:
    try:
        with (folder / SKILL_FILE).open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return folder.name
    read = read_metadata(head, Place("evals", os.fspath(folder / SKILL_FILE), folder.name))
    return read.metadata.name if read.metadata else folder.name


@lru_cache(maxsize=1_000)  # ten thousand cases may lay the same one
def _check_folder(root: Path, folder: Path) -> None:
    """Raise where a folder that is laid holds too much, or a link that leads out."""
    seen = 0
    for place, folders, files in walk(folder):
        for name in (*folders, *files):
            seen += 1
            inner = Path(place, name)
            if seen > MAX_LAID:
                raise PathFault(f"`{_shown(folder.name)}` holds more than {MAX_LAID:,} files")
            if inner.is_symlink() and not is_beneath(root, inner):
                raise OutsideRootError(_shown(inner.name))


def _shown(path: str) -> str:
    from skills_agent.skills.visible import visible_line  # noqa: PLC0415 - only a fault needs it

    return visible_line(path.encode(errors="backslashreplace").decode())[:120]
