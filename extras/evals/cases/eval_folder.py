"""Where a file of cases stands: the skill that it is about, and which paths its cases may name.

A case of a stranger names files of its own folder, or of its skill's, and nothing else: not by `..`, not by
a link.
"""

import os
import re
from pathlib import Path
from typing import Final

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.errors import EvalError
from skills_agent.skills.confined import ConfinedError, is_beneath, parts_of
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import SkillPath, read_metadata
from skills_agent.skills.sources.walk import SKILL_FILE

EVALS_FOLDER: Final = "evals"
_POSITION: Final = re.compile(r"#[^/]*$")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+|-{2,}")


def skill_folder(file: Path) -> Path | None:
    """Return the folder of the skill that a file of cases is of, which has it in `evals/` or at its top."""
    folder = next((above for above in [*file.parents][:3] if (above / SKILL_FILE).is_file()), None)
    if folder is None or (folder != file.parent and EVALS_FOLDER not in file.relative_to(folder).parts):
        return None
    return folder


def locate(path: str, file: Path) -> str:
    """Return the absolute path of a file or folder that a case names, relative to its file or its skill.

    Raises EvalError.
    """
    root = skill_folder(file) or file.parent
    for base in (file.parent, root):
        place = Path(os.path.normpath(base / path))
        if "\\" in path or "\0" in path or not is_beneath(root, place):
            raise EvalError(f"`{path}` leads out of its folder")
        if place.exists():
            return os.fspath(place)
    raise EvalError(f"there is no `{path}`")


def root_of(case: EvalCase) -> Path | None:
    """Return the folder whose files a case may name: its skill's, else that of its file; None for no file."""
    if not case.file:
        return None
    file = file_of(case)
    return skill_folder(file) or file.parent


def file_of(case: EvalCase) -> Path:
    """Return the file that a case was read from, without `#NUMBER`."""
    return Path(_POSITION.sub("", case.file))


def check_laid(path: str) -> None:
    """Raise EvalError for a path that leads out of the fresh workspace.

    `.agent` is refused: what stands there are settings, and no case may change those of its own run.
    """
    try:
        parts = parts_of(path)
    except ConfinedError as error:
        raise EvalError(f"`{path}` {error.reason}") from error
    if not parts or "\\" in path:
        raise EvalError(f"`{path}` is no path of a file in the workspace")
    if parts[0].casefold() in {".agent", ".claude"} and parts[1:2] != ("skills",):
        raise EvalError(f"`{path}` is a place of settings, which no case may lay")


def safe_id(text: str, limit: int = 64) -> str:
    """Return a text as a part of an id: what file names take everywhere, never empty."""
    return _UNSAFE.sub("-", text).strip(".-")[:limit].strip(".-") or "case"


def skill_name(folder: Path) -> str:
    """Return the name that the SKILL.md of a folder says, else that of the folder."""
    try:
        with (folder / SKILL_FILE).open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return folder.name
    read = read_metadata(head, SkillPath("evals", os.fspath(folder / SKILL_FILE), folder.name))
    return read.metadata.name if read.metadata else folder.name
