"""What a run keeps on disk: its head, and a line for each result, written as it comes.

    .agent/eval-runs/RUN/run.json        RunHead
    .agent/eval-runs/RUN/results.jsonl   an EvalResult a line, on the disk before the next one is
    .agent/eval-runs/RUN/lock            held by the process that works on the run

A killed run has what it had: a torn last line is dropped, and a result that is there twice counts once.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import structs

from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.result import EvalResult, RunHead
from skills_agent.skills import posix
from skills_agent.skills.confined import make_folder_beneath, open_folder_beneath, read_at_most

RUNS: Final = Path(".agent") / "eval-runs"
"""In the workspace."""
_HEAD: Final = "run.json"
_RESULTS: Final = "results.jsonl"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_BYTES: Final = 256 * 1024 * 1024


class RunFolder:
    """One run. A folder of a repository may be anybody's: what is read is checked, and never run."""

    def __init__(self, folder: Path, head: RunHead) -> None:
        self.folder = folder
        self.head = head

    @classmethod
    def create(cls, workspace: Path, head: RunHead) -> Self:
        """Begin a run. Raises EvalError where it cannot be kept."""
        made = cls(_folder(workspace, head.id), head)
        try:
            # The workspace may be anybody's: nothing is written where a link of it leads.
            os.close(make_folder_beneath(workspace, RUNS.as_posix()))
            made.folder.mkdir(mode=0o700)
            ignore = made.folder.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            made.finish(head.partial)
        except OSError as error:
            cause = error.strerror or error
            raise _error(head.id, f"{made.folder} cannot be written ({cause})") from error
        return made

    @classmethod
    def open(cls, workspace: Path, run: str) -> Self:
        """Open a run by its id, or by the path of its folder. Raises EvalError."""
        place = Path(run)
        is_path = place.is_dir() and (place / _HEAD).exists()
        folder = place if is_path else _folder(workspace, run)
        try:
            if not is_path:  # The workspace may be anybody's: no link of it is followed.
                os.close(open_folder_beneath(workspace, (RUNS / run).as_posix()))
            head = msgspec.json.decode(read_at_most(folder, _HEAD, _MAX_BYTES, follow=False), type=RunHead)
        except FileNotFoundError as error:
            known = ", ".join(ids(workspace)[:10]) or "none"
            raise _error(run, f"there is no such run. Known: {known}") from error
        except OSError as error:
            raise _error(run, f"it cannot be read ({error.strerror or error})") from error
        except msgspec.MsgspecError as error:
            raise _error(run, f"its {_HEAD} cannot be used ({error})") from error
        if not is_path and head.id != run:
            raise _error(run, f"its {_HEAD} is that of another run")
        return cls(folder, head)

    def append(self, result: EvalResult) -> None:
        """Keep one result: it is on the disk when this returns. One process at a time holds the run."""
        place = self.folder / _RESULTS
        with os.fdopen(_opened(place, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+b") as file:
            size = file.tell()
            is_torn = size and os.pread(file.fileno(), 1, size - 1) != b"\n"  # a process was killed in it
            file.write((b"\n" if is_torn else b"") + msgspec.json.encode(result) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def results(self) -> list[EvalResult]:
        """Return the results, each once, in the order in which they came. Raises EvalError."""
        try:
            raw = read_at_most(self.folder, _RESULTS, _MAX_BYTES, follow=False)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _error(self.head.id, f"its results cannot be read ({error.strerror})") from error
        found: dict[tuple[str, str, str, int], EvalResult] = {}
        for line in filter(None, raw.split(b"\n")):
            with suppress(msgspec.MsgspecError):  # what a kill left is run anew
                result = msgspec.json.decode(line, type=EvalResult)
                found.setdefault(result.key, result)
        return list(found.values())

    def finish(self, partial: str = "") -> None:
        """Say in the head, in one step, that the run has ended, or why it did not come to its end."""
        self.head = structs.replace(self.head, partial=partial)
        draft = self.folder / f".{_HEAD}"
        with os.fdopen(_opened(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self.head), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / _HEAD)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run. Raises EvalError where another process works on it."""
        import fcntl  # noqa: PLC0415 - not on Windows, where this module can be imported

        with os.fdopen(_opened(self.folder / "lock", os.O_RDWR | os.O_CREAT), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise _error(self.head.id, "another process is working on it") from error
            yield


def ids(workspace: Path) -> list[str]:
    """Return the ids of the runs of a workspace, the newest first."""
    heads = sorted((workspace / RUNS).glob(f"*/{_HEAD}"), key=lambda head: head.stat().st_mtime_ns)
    return [head.parent.name for head in reversed(heads)]


def newest(workspace: Path, is_wanted: Callable[[RunHead], bool]) -> RunFolder | None:
    """Return the newest run of a workspace whose head is one that is wanted. Raises EvalError."""
    runs = (RunFolder.open(workspace, run) for run in ids(workspace))
    return next((each for each in runs if is_wanted(each.head)), None)


def _folder(workspace: Path, run: str) -> Path:
    if not _ID.fullmatch(run):
        raise _error(run, "an id has letters, digits, `.`, `_` and `-`")
    return workspace / RUNS / run


def _opened(file: Path, how: int) -> int:
    """Open a file of a run, which is no link: it would be written where that leads. Raises OSError."""
    return os.open(file, how | posix.FILE, 0o600)


def _error(run: str, reason: str) -> EvalError:
    return EvalError(f"The run {run} is of no use here: {reason}.")
