"""Start a program under the supervisor, feed it, read it, stop it, and clean up after it.

The lifeline is a pipe of which this process holds the writing end: it closes when the agent closes it, and
when the agent dies, even by SIGKILL. (PR_SET_PDEATHSIG alone would fire when the thread ends that started
the program, and reaches no grandchild.)
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.output import Capture
from skills_agent.skills.scripts.runner import Stop

PYTHON: Final = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
"""That of the system, and not that of a virtual environment, which may be in a workspace."""
_HERE: Final = os.path.dirname(__file__)  # noqa: PTH120
GRACE_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL."""
LOOKOUT_SECONDS: Final = 0.05
"""Between two looks at what was written, and whether it is to be stopped."""
FLOOD_FACTOR: Final = 100
"""A program that writes this many times the output that is kept is stopped."""
CHUNK_BYTES: Final = 64 * 1024
DRAIN_CHUNKS: Final = 32
"""Read at most after the end: twice what a pipe holds where an unprivileged user has enlarged it."""
KILL_SECONDS: Final = 10
"""How long the end of every process is waited for: one in a dead network file system never ends."""


def small_program(name: str, folder: str = _HERE) -> tuple[str, ...]:
    """Return the command of a module in a folder, before its arguments: one that imports next to nothing.

    It may import `supervisor`. Imported itself, it is not compiled for every script.
    """
    start = f"import sys; sys.path += {[_HERE, folder]}; import {name}; {name}.main(sys.argv[1:])"
    return (PYTHON, "-I", "-S", "-X", "utf8", "-c", start)


SUPERVISOR: Final = small_program("supervisor")


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """How the system starts a program."""

    title: str
    """The program's name for people."""
    command: Sequence[str]
    workdir: Path
    environment: Mapping[str, str]
    rlimits: Mapping[str, int]
    memory: int
    """Bytes of all processes together."""
    processes: int
    stdin: str | None
    wrapped: bool = False
    """Whether the first process is a wrapper that gets no SIGTERM."""
    descriptors: tuple[int, ...] = ()
    """What the program gets open beside its streams; closed here once it is started."""


class SupervisedProgram:
    """A running program, its streams, and its supervisor.

    Only the program itself is waited for: a daemon that keeps its output open holds up nothing.
    """

    def __init__(self, start: ProgramStart, stdout: Capture, stderr: Capture) -> None:
        """Start both. Raises ScriptError when the system refuses."""
        self._captures = (stdout, stderr)
        self.report = bytearray()
        """What the supervisor has reported until now."""
        self._start(start)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._status, selectors.EVENT_READ, self.report.extend)
        self._pipes = [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe]
        for pipe, capture in zip(self._pipes, self._captures, strict=True):
            self._selector.register(pipe, selectors.EVENT_READ, capture.add)

    def until_end(
        self,
        deadline: float,
        flood: int,
        stop: Callable[[], Stop | None],
        over: Callable[[Callable[[], list[int]]], Stop | None],
    ) -> Stop | None:
        """Return why it was ended here, or None. `flood` is how many bytes may come from a stream.

        `stop` and `over`, which is given its processes, are asked again and again: at a reason of the latter
        it is ended without a grace.
        """
        while self._is_alive():
            now = time.monotonic()
            if limit := over(self._family):
                return limit
            if reason := stop():
                return self._stop(reason)
            if now >= deadline:
                return self._stop("time")
            if max(capture.total for capture in self._captures) > flood:
                return self._stop("output")
            self._transfer(min(deadline - now, LOOKOUT_SECONDS))
        return over(self._family)

    def clean_up(self) -> None:
        """End every process of the run, keep what it still wrote, and give everything back.

        A script under plain control can kill its supervisor. Then its process group is killed from here.
        """
        os.close(self._lifeline)
        self._transfer_for(KILL_SECONDS)
        for _ in range(DRAIN_CHUNKS):
            if not self._transfer(0):
                break
        self._selector.close()
        for pipe, capture in zip(self._pipes, self._captures, strict=True):
            pipe.close()
            capture.close()
        os.close(self._status)
        with suppress(subprocess.TimeoutExpired):  # it waits for a process that the kernel cannot end
            self._process.wait(1)
        match self.report.split():
            case [b"started", group]:  # and no line after it
                with suppress(OSError):
                    os.killpg(int(group), signal.SIGKILL)

    def _start(self, start: ProgramStart) -> None:
        control, self._lifeline = os.pipe()
        self._status, status = os.pipe()
        limits = ",".join(f"{name}={value}" for name, value in start.rlimits.items())
        options = (control, status, os.getpid(), int(start.wrapped), start.memory, start.processes, limits)
        try:
            with TemporaryFile() as stdin:  # it takes a text of any length at once, unlike a pipe
                stdin.write((start.stdin or "").encode(errors="replace"))
                stdin.seek(0)
                self._process = subprocess.Popen(  # noqa: S603 - an argument list, and running scripts is the purpose
                    [*SUPERVISOR, *map(str, options), *start.command],
                    cwd=start.workdir,
                    env=dict(start.environment),
                    stdin=subprocess.DEVNULL if start.stdin is None else stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=(control, status, *start.descriptors),
                    start_new_session=True,
                    bufsize=0,
                )
        except (OSError, ValueError) as error:
            os.close(self._lifeline)
            os.close(self._status)
            # A ValueError: a NUL or a lone surrogate in an argument.
            cause = error.strerror if isinstance(error, OSError) else f"bad argument ({error})"
            raise ScriptError(f"Cannot start {start.title}: {cause or error}.") from error
        finally:
            for descriptor in (control, status, *start.descriptors):
                os.close(descriptor)

    def _family(self) -> list[int]:
        from skills_agent.skills.scripts import supervisor  # noqa: PLC0415 - POSIX systems alone can import it

        return supervisor.family(self._process.pid)

    def _is_alive(self) -> bool:
        return self._status in self._selector.get_map()

    def _stop(self, reason: Stop) -> Stop:
        with suppress(OSError):
            os.write(self._lifeline, b"T")
        self._transfer_for(GRACE_SECONDS)
        return reason

    def _transfer_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._is_alive() and (left := end - time.monotonic()) > 0:
            self._transfer(left)

    def _transfer(self, seconds: float) -> bool:
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if chunk := os.read(key.fd, CHUNK_BYTES):
                key.data(chunk)
            else:
                self._selector.unregister(key.fileobj)
        return bool(ready)
