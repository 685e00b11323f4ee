"""Runs that were cut off with the agent (SIGKILL, a crash): nobody looked at what their script had made.

Each run leaves a record for its time, locked, in a folder of the user. One that nobody holds is of an agent
that is gone: what its run made is found at the next start, in the same way. The time of the record says until
when the script can have run: what is younger may be the person's.
"""

import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from skills_agent.sandbox.protected_files import Findings, ProtectedFile
from skills_agent.sandbox.watch import Watch
from skills_agent.skills import posix
from skills_agent.skills.errors import SkillsAgentError

logger = logging.getLogger(__name__)

GRACE_NS: Final = 2_000_000_000
"""How much later than the last beat a script may have written."""


class CutOff(NamedTuple):
    """A run that nobody looked at."""

    folder: Path
    moment: int
    allowed: tuple[str, ...]
    before: Findings
    last: int
    """When the script had ended at the latest (ns)."""


class UnfinishedRuns:
    """The records of runs of one level of isolation."""

    def __init__(self, folder: Callable[[], Path] | None, level: str) -> None:
        """Name what makes the folder, and returns it; without one, nothing is kept."""
        self._folder, self._level = folder, level

    @contextmanager
    def noted(self, watch: Watch, moment: int) -> Iterator[Callable[[], None]]:
        """Keep a record for the time of a run; yield what is to be called again and again meanwhile."""
        try:
            path = self._place() / f"{self._level}-{secrets.token_hex(8)}.json"
            descriptor = os.open(
                path.with_suffix(".new"), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600
            )
        except (OSError, SkillsAgentError, LookupError) as error:
            if self._folder:
                logger.warning("a run cannot be noted, to look at it after a crash: %s", error)
            yield lambda: None
            return
        try:
            posix.fcntl.flock(descriptor, posix.fcntl.LOCK_EX)
            with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
                found = {**watch.before._asdict(), "skipped": sorted(watch.before.skipped)}
                json.dump([os.fspath(watch.folder), moment, watch.allowed, found], file)
            path.with_suffix(".new").rename(path)
            yield partial(os.utime, descriptor)
        finally:
            for each in (path, path.with_suffix(".new")):
                each.unlink(missing_ok=True)
            os.close(descriptor)

    def cut_off(self) -> Iterator[CutOff]:
        """Yield the runs that nobody looked at; each is taken off when the next one is asked for."""
        for path, file in self._left():
            with suppress(OSError):
                try:
                    yield _read(file.read(), os.fstat(file.fileno()).st_mtime_ns)
                except (ValueError, TypeError, KeyError, RecursionError) as error:
                    logger.warning("the record of a run that was cut off is damaged: %s (%s)", path, error)
                path.unlink(missing_ok=True)

    def pending(self) -> int:
        """Return how many runs nobody looked at, and take none off."""
        return sum(1 for _ in self._left())

    def _left(self) -> Iterator[tuple[Path, BinaryIO]]:
        """Yield the records that no agent holds; each is locked until the next one is asked for."""
        try:
            paths = sorted(self._place().glob(f"{self._level}-*.json"))
        except (OSError, SkillsAgentError, LookupError):
            return
        for path in paths:
            with suppress(OSError), path.open("rb") as file:
                posix.fcntl.flock(file, posix.fcntl.LOCK_EX | posix.fcntl.LOCK_NB)
                if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    yield path, file

    def _place(self) -> Path:
        if self._folder is None:
            raise LookupError
        return self._folder()


def _read(text: bytes, beat: int) -> CutOff:
    folder, moment, allowed, found = json.loads(text)
    places = {path: ProtectedFile(*place) for path, place in found["places"].items()}
    before = Findings(places, int(found["unseen"]), frozenset(found["skipped"]))
    return CutOff(Path(folder), int(moment), tuple(allowed), before, beat + GRACE_NS)
