"""Start a program under the supervisor, feed it, read it, stop it, and clean up after it.

The lifeline is a pipe of which this process holds the writing end: it closes when the agent closes it, and
when the agent dies, even by SIGKILL. (PR_SET_PDEATHSIG alone would fire when the thread ends that started
the program, and reaches no grandchild.)
"""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import IO, Final

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts import supervisor
from skills_agent.skills.scripts.output import Capture
from skills_agent.skills.scripts.runner import Stop

SUPERVISOR: Final = (sys.executable, "-I", "-S", "-X", "utf8", supervisor.__file__)
GRACE_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL."""
LOOKOUT_SECONDS: Final = 0.1
"""Between two looks whether the agent is being shut down."""
FLOOD_FACTOR: Final = 100
"""A program that writes this many times the output that is kept is stopped."""
CHUNK_BYTES: Final = 64 * 1024
DRAIN_CHUNKS: Final = 32
"""Read at most after the end: twice what a pipe holds where an unprivileged user has enlarged it."""
KILL_SECONDS: Final = 10
"""How long the end of every process is waited for: one in a dead network file system never ends."""


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
    wrapped: bool = False
    """Whether the first process is a wrapper that gets no SIGTERM."""


class SupervisedProgram:
    """A running program, its streams, and its supervisor.

    Only the program itself is waited for: a daemon that keeps its output open holds up nothing.
    """

    def __init__(
        self, start: ProgramStart, stdin: str | None, stdout: Capture, stderr: Capture, flood: int
    ) -> None:
        """Start both. `flood` is how many bytes of a stream are taken before the program is stopped.

        Raises ScriptError when the system refuses.
        """
        self._unsent = memoryview((stdin or "").encode(errors="replace"))
        self._captures = (stdout, stderr)
        self._flood = flood
        self._report = bytearray()
        self._alive = True
        self._start(start, subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._status, selectors.EVENT_READ, None)
        self._register(self._process.stdout, selectors.EVENT_READ, stdout)
        self._register(self._process.stderr, selectors.EVENT_READ, stderr)
        self._register(self._process.stdin, selectors.EVENT_WRITE, None)

    @property
    def report(self) -> str:
        """What the supervisor has reported until now."""
        return self._report.decode("ascii")

    def until_end(self, deadline: float, shutdown: Callable[[], bool]) -> Stop | None:
        """Return why it was ended here, or None. `deadline` is a time of the monotonic clock."""
        while self._alive:
            now = time.monotonic()
            if shutdown():
                return self._stop("shutdown")
            if now >= deadline:
                return self._stop("time")
            if max(capture.total for capture in self._captures) > self._flood:
                return self._stop("output")
            self._transfer(min(deadline - now, LOOKOUT_SECONDS))
        return None

    def clean_up(self) -> None:
        """End every process of the run, keep what it still wrote, and give everything back.

        A script under plain control can kill its supervisor. Then its process group is killed from here.
        """
        os.close(self._lifeline)
        self._transfer_for(KILL_SECONDS)
        for _ in range(DRAIN_CHUNKS):
            if not self._transfer(0):
                break
        for key in list(self._selector.get_map().values()):
            self._forget(key)
        self._selector.close()
        for capture in self._captures:
            capture.close()
        os.close(self._status)
        with suppress(subprocess.TimeoutExpired):  # it waits for a process that the kernel cannot end
            self._process.wait(1)
        word, _, group = self.report.strip().partition(" ")
        if word == "started" and group.isdigit():  # and no line after it
            with suppress(OSError):
                os.killpg(int(group), SIGKILL)

    def _start(self, start: ProgramStart, stdin: int) -> None:
        control, self._lifeline = os.pipe()
        self._status, status = os.pipe()
        limits = ",".join(f"{name}={value}" for name, value in start.rlimits.items())
        options = (control, status, os.getpid(), int(start.wrapped), start.memory, start.processes, limits)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list, and running scripts is the purpose
                [*SUPERVISOR, *map(str, options), *start.command],
                cwd=start.workdir,
                env=dict(start.environment),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(control, status),
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
            os.close(control)
            os.close(status)

    def _stop(self, reason: Stop) -> Stop:
        """Have SIGTERM sent to every process of the run, and wait a little."""
        with suppress(OSError):
            os.write(self._lifeline, b"T")
        self._transfer_for(GRACE_SECONDS)
        return reason

    def _transfer_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._alive and (left := end - time.monotonic()) > 0:
            self._transfer(left)

    def _register(self, pipe: IO[bytes] | None, event: int, capture: Capture | None) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, capture)

    def _forget(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        if not isinstance(key.fileobj, int):
            with suppress(BrokenPipeError):
                key.fileobj.close()  # type: ignore[attr-defined]  # typeshed: HasFileno has no close

    def _transfer(self, seconds: float) -> bool:
        """Move all bytes that can be moved within some seconds; False when there were none."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.events == selectors.EVENT_WRITE:
                self._write(key)
            else:
                self._read(key)
        return bool(ready)

    def _read(self, key: selectors.SelectorKey) -> None:
        chunk = os.read(key.fd, CHUNK_BYTES)
        if key.fd == self._status:
            self._report += chunk
            self._alive = bool(chunk)
        elif chunk:
            key.data.add(chunk)
        if not chunk:
            self._forget(key)

    def _write(self, key: selectors.SelectorKey) -> None:
        try:
            sent = os.write(key.fd, self._unsent[:CHUNK_BYTES])
        except BrokenPipeError:
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._forget(key)
