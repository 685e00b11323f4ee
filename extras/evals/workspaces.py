"""The fresh workspace of a run of a case: files are laid into it.

A case file may have come from somebody else: what it lays is from its own folder, and lies in the workspace.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Final

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.eval_folder import root_of
from skills_agent.skills.confined import make_folder_beneath, parts_of, read_beneath
from skills_agent.skills.trees import remove_tree, walk
from skills_agent.skills.visible import visible_line

_MAKING: Final = Lock()
MAX_BYTES: Final = 256 << 20
"""Of all files that one case lays."""


@contextmanager
def fresh_place() -> Iterator[Path]:
    """Yield a folder that nobody else can read, with `work` and `home` in it, and remove it in the end.

    It is the first that is free: its path is in the prompt, which a provider's cache then knows from before.
    """
    folder = next(filter(None, map(_taken, count(1))))
    try:
        for name in ("work", "home"):
            (folder / name).mkdir(mode=0o700)
        yield folder
    finally:
        remove_tree(folder)


@cache
def _places() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of this process; it goes with it."""
    return tempfile.TemporaryDirectory(prefix="skills-agent-eval-")


def _taken(number: int) -> Path | None:
    """Take a place; return None where another case has it."""
    with _MAKING:  # `cache` lets two threads in
        folder = Path(os.path.realpath(_places().name), str(number))
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return None
    return folder


def lay(case: EvalCase, workspace: Path) -> None:
    """Lay the files of a case into its workspace; what is copied is beneath its folder, links resolved.

    Of a case of no file, which a program made, a link leads no further than the folder that is copied.
    Raises EvalError for what leads out, is no file, or is too much.
    """
    left = MAX_BYTES
    for path in (*case.copies, *case.files):  # a file may stand in for one of a folder that is copied
        try:
            for place, content, is_program in _contents(case, path, left):
                left -= len(content)
                mode = 0o700 if is_program else 0o600
                with os.fdopen(created(workspace, place, mode, os.O_TRUNC), "wb") as copy:
                    copy.write(content)
        except OSError as error:
            cause = visible_line(str(error)).rstrip(".")
            raise EvalError(
                f"The case cannot have {visible_line(path)} in its workspace: {cause}."
            ) from error


def created(root: Path, path: str, mode: int, flags: int) -> int:
    """Open a file beneath a folder to write to it, made with its folders; it is reached by no link."""
    *folders, name = parts_of(path) or ("",)
    folder = make_folder_beneath(root, "/".join(folders) or ".")
    try:
        flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=folder)
    finally:
        os.close(folder)


def _contents(case: EvalCase, path: str, limit: int) -> Iterator[tuple[str, bytes, bool]]:
    """Yield where each file is laid, what it holds, and whether it is a program."""
    if path in case.files:
        yield path, case.files[path].encode(), False
        return
    source = Path(case.copies[path])
    top = root_of(case) or (source if source.is_dir() else source.parent)
    for each in _files_of(source):
        content = read_beneath(top, os.path.relpath(each, top), limit + 1)
        limit -= len(content)
        if limit < 0:
            raise OSError(f"a case lays at most {MAX_BYTES >> 20} MB")
        place = f"{path.rstrip('/')}/{each.relative_to(source).as_posix()}" if each != source else path
        yield place, content, os.access(each, os.X_OK)


def _files_of(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    for place, folders, names in walk(source):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names))
