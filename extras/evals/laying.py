"""The fresh workspace of a run of a case: files are laid into it.

A case file may have come from somebody else: what it lays is from its own folder, and lies in the workspace.
"""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from skills_agent.evals.cases.case import EvalCase, LaidFile
from skills_agent.evals.cases.errors import EvalError
from skills_agent.skills import posix
from skills_agent.skills.confined import (
    ConfinedError,
    OutsideRootError,
    is_beneath,
    make_folder_beneath,
    open_beneath,
    parts_of,
)
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.trees import remove_tree, walk
from skills_agent.skills.visible import visible_line

PREFIX: Final = "skills-agent-eval-"
MAX_FILES: Final = 10_000
"""Files that one case lays."""
MAX_BYTES: Final = 1 << 30
"""Of all files that one case lays."""
_PIECE: Final = 1 << 20
_LOCK: Final = "lock"
"""In a place: held by the process that uses it."""
_POSITION: Final = re.compile(r"(:[0-9]+|#[^/]*)$")


class FreshPlace:
    """A folder that ends with the run of a case: a workspace and a home."""

    def __init__(self, folder: Path) -> None:
        """Make both in a new folder."""
        self.folder = folder
        self.workspace, self.home = folder / "work", folder / "home"
        for each in (self.workspace, self.home):
            each.mkdir(mode=0o700)


@contextmanager
def fresh_place() -> Iterator[FreshPlace]:
    """Yield a place that nobody else can read, and remove it in the end."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=PREFIX)))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    posix.fcntl.flock(lock, posix.fcntl.LOCK_EX)
    try:
        yield FreshPlace(folder)
    finally:
        remove_tree(folder)
        os.close(lock)


def remove_left_places() -> None:
    """Remove what runs of cases left that were killed: places of this user that no process holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            facts = folder.lstat()
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                posix.fcntl.flock(lock, posix.fcntl.LOCK_EX | posix.fcntl.LOCK_NB)
                remove_tree(folder)
            finally:
                os.close(lock)


def lay(files: Sequence[LaidFile], workspace: Path, root: Path | None = None) -> None:
    """Lay the files of a case into its workspace; what is copied is beneath `root`, links resolved.

    Without a root, which only a program leaves out, a link leads no further than the folder that is copied.
    Raises EvalError for what leads out, is no file, or is too much.
    """
    budget = _Budget()
    for file in files:
        name = visible_line(file.path)
        try:
            _check(file.path)
            if file.source is None:
                _write(workspace, file.path, (file.text or "").encode(), budget)
            else:
                source = Path(file.source)
                _copy(source, workspace, file.path, root or _own_root(source), budget)
        except OSError as error:
            told = isinstance(error, ConfinedError) or not error.strerror
            cause = visible_line(str(error)).rstrip(".") if told else error.strerror
            raise EvalError(f"The case cannot have {name} in its workspace: {cause}.") from error


def root_of(case: EvalCase) -> Path | None:
    """Return the folder whose files a case may name: its skill's, else that of its file; None for no file."""
    if not case.file:
        return None
    folder = file_of(case).parent
    return next((each for each in [folder, *folder.parents][:3] if (each / SKILL_FILE).is_file()), folder)


def file_of(case: EvalCase) -> Path:
    """Return the file that a case was read from, without `:LINE` or `#INDEX`."""
    return Path(_POSITION.sub("", case.file))


class _Budget:
    """How much one case may still lay."""

    def __init__(self) -> None:
        self.files, self.bytes = MAX_FILES, MAX_BYTES

    def take(self, size: int) -> None:
        """Take one file. Raises OSError where it is too much."""
        self.files -= 1
        self.bytes -= size
        if self.files < 0 or self.bytes < 0:
            raise OSError(f"a case lays at most {MAX_FILES:,} files of {MAX_BYTES >> 20:,} MB together")


def _check(path: str) -> None:
    if not parts_of(path):
        raise OutsideRootError(path)


def _own_root(source: Path) -> Path:
    return source if source.is_dir() else source.parent


def _copy(source: Path, workspace: Path, path: str, root: Path, budget: _Budget) -> None:
    if not is_beneath(root, source):
        raise OSError(f"{visible_line(str(source))} is not in the folder of the case")
    if not source.is_dir():
        _copy_file(source, workspace, path, root, budget)
        return
    for place, folders, names in walk(source):
        folders[:] = sorted(each for each in folders if not Path(place, each).is_symlink())
        for name in sorted(names):
            file = Path(place, name)
            relative = file.relative_to(source).as_posix()
            _copy_file(file, workspace, f"{path.rstrip('/')}/{relative}", root, budget)


def _copy_file(source: Path, workspace: Path, path: str, root: Path, budget: _Budget) -> None:
    real_root = Path(os.path.realpath(root))
    real = Path(os.path.realpath(source.parent)) / source.name
    if not real.is_relative_to(real_root):
        raise OSError(f"{visible_line(str(source))} is not in the folder of the case")
    with os.fdopen(open_beneath(real_root, str(real.relative_to(real_root))), "rb") as file:
        status = os.fstat(file.fileno())
        budget.take(status.st_size)
        mode = 0o700 if status.st_mode & 0o100 else 0o600
        with os.fdopen(_created(workspace, path, mode), "wb") as copy:
            shutil.copyfileobj(file, copy, _PIECE)


def _write(workspace: Path, path: str, content: bytes, budget: _Budget) -> None:
    budget.take(len(content))
    with os.fdopen(_created(workspace, path, 0o600), "wb") as file:
        file.write(content)


def _created(workspace: Path, path: str, mode: int) -> int:
    """Open a new file of the workspace, with its folders. Nothing that was laid is a link."""
    *folders, name = parts_of(path)
    folder = make_folder_beneath(workspace, "/".join(folders) or ".")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=folder)
    finally:
        os.close(folder)
