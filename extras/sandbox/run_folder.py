"""The folder of one run, locked while it lasts: one that nobody holds is of an agent that was killed.

Where a person decides about changes of the run later, it stays, with a record of it.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, NamedTuple, Self, TypeVar

import msgspec

from skills_agent.skills import posix
from skills_agent.skills.scripts.changes import JudgedChange
from skills_agent.skills.scripts.runner import ScriptResult
from skills_agent.skills.text import clean_text, one_line
from skills_agent.skills.trees import remove_tree

T = TypeVar("T")
RUN: Final = "run-"
RECORD: Final = "held.json"
BEFORE: Final = "before.json"
"""In the folder of a run that works in the folders themselves: what is known of them before (`after.py`)."""
MAX_NAMED: Final = 10
"""Paths in a sentence."""


class RunFolder(NamedTuple):
    """The folder of one run: it is removed when a `with` block of it ends."""

    path: Path
    lock: int
    """A descriptor: while it is open, nobody takes the run for one that was cut off."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        remove_tree(self.path)
        os.close(self.lock)


def new_run(above: Path, call: str = "") -> RunFolder:
    """Make a folder for a run of a call. Raises OSError."""
    new = Path(mkdtemp(prefix=".", dir=above))
    lock = locked(new)
    # From now on, it is locked or cut off.
    return RunFolder(new.rename(above / f"{RUN}{new.name[1:]}.{call}"), lock)


def cut_off(above: Path) -> Iterator[RunFolder]:
    """Yield the folders of runs that worked in the folders themselves and were cut off.

    Each is removed before the next.
    """
    for path in [file.parent for file in above.glob(f"{RUN}*/{BEFORE}")]:
        with suppress(OSError), RunFolder(path, locked(path)) as run:  # or it goes on
            yield run


def locked(folder: Path, *, waits: bool = False) -> int:
    """Lock a folder; return the descriptor that holds it. Raises OSError where somebody else does.

    With `waits`, it waits until nobody else does.
    """
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX | (0 if waits else posix.fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def shown(paths: Sequence[str]) -> str:
    """Return paths for people and the model, the first of them."""
    named = ", ".join(one_line(clean_text(path).text) for path in paths[:MAX_NAMED])
    return f"{named} and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else named


class Record(NamedTuple):
    """What is kept of a run that is held."""

    label: str
    result: ScriptResult
    moment: int
    """Of its layers."""
    judged: dict[str, list[JudgedChange]]
    """The changes of each layer, by the name of its folder in that of the run."""
    is_taken: bool = False
    """Whether they were in the real folder: then they are kept, whatever a person decides."""
    is_settled: bool = False
    """Somebody has decided: the result says what, and stays for a call whose agent was killed then."""


def write(path: Path, record: Record) -> None:
    """Write a record; names that are no text are kept (as escapes of JSON)."""
    new = path.with_suffix(".new")
    with new.open("w") as file:
        json.dump(msgspec.to_builtins(record), file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def read(path: Path, kind: type[T]) -> T:
    """Return what is written in a file. Raises OSError, and ValueError for another kind of thing."""
    try:
        return msgspec.convert(json.loads(path.read_text()), kind)
    except RecursionError as error:
        raise ValueError(str(error)) from error
