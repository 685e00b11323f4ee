"""Kill points: places of a run at which its process can be ended with SIGKILL.

They are counted in a file, so that the agent, the scripts it starts and the process that goes on with
the thread count on together. Nobody lists them: whatever is written to a checkpointer or a journal, and
whatever an effect does, passes one before and one after.
"""

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from skills_agent.nodes.effects import JournalEntry

FILE = "points.log"


@dataclass(frozen=True)
class Points:
    """The kill points of one scenario."""

    folder: Path
    target: int
    """Number of the point at which the process that passes it is killed, from 1; 0: none is."""

    def reach(self, name: str) -> None:
        """Pass a point, or end here."""
        with (self.folder / FILE).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = 1 + len(file.readlines())
            file.write(f"{name}\n")
            file.flush()
        if number == self.target:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Pass a point before and one after a block."""
        self.reach(f"before {name}")
        yield
        self.reach(f"after {name}")

    @property
    def passed(self) -> list[str]:
        """Return the names of the points that were passed, in order."""
        file = self.folder / FILE
        return file.read_text().splitlines() if file.exists() else []


class KillingJournal:
    """Kill points around every write of a journal."""

    points: Points

    def put(self, entry: JournalEntry, **how: Any) -> None:
        with self.points.around(f"journal {entry.status}"):
            cast("Any", super()).put(entry, **how)


SLOW = 0.04
"""Seconds that a checkpoint takes where durability is `async`: the steps run ahead of what is stored, as they
do on a slow disk, and what a kill then loses is more than the last step."""


class Killing:
    """Kill points around every write of a checkpointer."""

    points: Points
    is_slow: bool

    def put(self, *args: Any) -> Any:
        with self.points.around("put"):
            time.sleep(SLOW * self.is_slow)
            return cast("Any", super()).put(*args)

    def put_writes(self, *args: Any) -> None:
        with self.points.around("put_writes"):
            cast("Any", super()).put_writes(*args)


class AsyncKilling:
    points: Points
    is_slow: bool

    async def aput(self, *args: Any) -> Any:
        with self.points.around("put"):
            await asyncio.sleep(SLOW * self.is_slow)
            return await cast("Any", super()).aput(*args)

    async def aput_writes(self, *args: Any) -> None:
        with self.points.around("put_writes"):
            await cast("Any", super()).aput_writes(*args)
