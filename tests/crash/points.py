"""Kill points: places of a run at which its process can be ended with SIGKILL.

They are counted in a file, so that the agent, the scripts it starts and the process that goes on with
the thread count on together. Nobody lists them: whatever is written to a checkpointer or a journal, and
whatever an effect does, passes one before and one after.
"""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
