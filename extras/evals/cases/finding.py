"""Find files of eval cases: of a skill, of a folder of skills, of a workspace."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.eval_folder import EVALS_FOLDER
from skills_agent.skills.confined import is_beneath
from skills_agent.skills.library.contents import LEFT_OUT
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.trees import walk
from skills_agent.skills.visible import visible_line

MAX_FOLDERS: Final = 20_000
"""That are looked at for skills."""
MAX_DEPTH: Final = 6
"""Of a skill's folder beneath the one that is looked through: 99.4 % of public skills are there."""
_FOLDERS: Final = (f".agent/{EVALS_FOLDER}", ".agent/skills", "")
"""Of a workspace: its own cases, its skills, and skills anywhere beneath it."""
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})


def find_files(place: Path) -> tuple[Path, ...]:
    """Return the files of eval cases at a place, sorted.

    That is a file itself; of the folder of a skill those in `evals/`; of a workspace those in
    `.agent/evals/`; and those of every skill beneath. Raises EvalError where there is no such place.
    """
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise EvalError(f"there is no such file or folder: {visible_line(str(place))}")
    if (place / SKILL_FILE).is_file():
        return tuple(_files_in(place / EVALS_FOLDER))
    if place.name == EVALS_FOLDER:
        return tuple(_files_in(place))
    cases, *skills = (place / each for each in _FOLDERS)
    found = [*_files_in(cases)]
    for root in skills:
        found += (file for skill in _skills_beneath(root) for file in _files_in(skill / EVALS_FOLDER))
    return tuple(dict.fromkeys(found))


def _files_in(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        file = folder / entry.name
        if (
            file.suffix in _SUFFIXES
            and not entry.name.startswith(".")
            and entry.is_file()
            and is_beneath(folder, file)
        ):
            yield file


def _skills_beneath(root: Path) -> Iterator[Path]:
    """Yield the folders of skills beneath a folder, hidden ones and those of other people's code left out."""
    if not root.is_dir():
        return
    for number, (place, folders, files) in enumerate(walk(root)):
        if number >= MAX_FOLDERS:
            return
        hidden = {name for name in folders if name.startswith(".")}
        folders[:] = sorted({*folders} - hidden - LEFT_OUT - {"node_modules"})
        if SKILL_FILE in files:
            yield Path(place)
        # Clients share skills by links: a linked skill counts, what is beneath a linked folder does not.
        linked = (Path(place, name) for name in folders if Path(place, name).is_symlink())
        yield from (each for each in linked if (each / SKILL_FILE).is_file())
        if len(Path(place).relative_to(root).parts) >= MAX_DEPTH:
            folders.clear()
