"""Watch one process from its start to its end: feed it, read it, stop it, and clean up after it."""

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import IO, Final, Literal

from skills_agent.skills.scripts.capture import Capture

GRACE_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL."""

FLOOD_FACTOR: Final = 100
"""A process that writes this many times the kept output is stopped."""

CHUNK_BYTES: Final = 64 * 1024
DRAIN_CHUNKS: Final = 32
"""Read at most after the end: twice what a pipe holds where an unprivileged user has enlarged it."""

TICK_SECONDS: Final = 0.02
"""How long an exit may go unnoticed while a child of the process still holds its output."""

Ending = Literal["exited", "timed-out", "flooded"]


class Watch:
    """One process that leads its own process group, with its pipes.

    Only the process itself is waited for: a daemon that keeps its output open holds up nothing.
    """

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, max_output: int) -> None:
        """Take over the pipes; `stdin` is written where the process has a pipe for it."""
        self._process = process
        self._unsent = memoryview(stdin)
        self._flood = FLOOD_FACTOR * max_output
        self._selector = selectors.DefaultSelector()
        self.stdout = Capture(max_output)
        self.stderr = Capture(max_output)
        self._watch(process.stdout, selectors.EVENT_READ, self.stdout)
        self._watch(process.stderr, selectors.EVENT_READ, self.stderr)
        self._watch(process.stdin, selectors.EVENT_WRITE, None)

    def until_end(self, deadline: float) -> Ending:
        """Return how it ended. `deadline` is a time of the monotonic clock."""
        while not self._has_exited():
            now = time.monotonic()
            if now >= deadline:
                self._terminate()
                return "timed-out"
            if max(self.stdout.total, self.stderr.total) > self._flood:
                self._terminate()
                return "flooded"
            self._transfer(deadline - now)
        return "exited"

    def clean_up(self) -> None:
        """End the whole process group, keep what it still wrote, and give everything back.

        The group is killed before its leader is reaped: until then its number cannot be reused.
        """
        self._signal(signal.SIGKILL)
        for _ in range(DRAIN_CHUNKS):
            if not self._transfer(0):
                break
        for key in list(self._selector.get_map().values()):
            self._forget(key)
        self._selector.close()
        self._process.wait()

    def _watch(self, pipe: IO[bytes] | None, event: int, capture: Capture | None) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, capture)

    def _forget(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        if not isinstance(key.fileobj, int):
            with suppress(BrokenPipeError):
                key.fileobj.close()  # type: ignore[attr-defined]  # typeshed: HasFileno has no close

    def _has_exited(self) -> bool:
        """Look without reaping."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._process.pid, options) is not None
        except ChildProcessError:  # the host program ignores SIGCHLD: the kernel reaped it
            return True

    def _terminate(self) -> None:
        self._signal(signal.SIGTERM)
        end = time.monotonic() + GRACE_SECONDS
        while not self._has_exited() and (left := end - time.monotonic()) > 0:
            self._transfer(left)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _transfer(self, patience: float) -> bool:
        """Move what can be moved now, after waiting a tick at most; False when nothing could."""
        idle = 0.001 if not self._selector.get_map() else TICK_SECONDS
        moved = False
        for key, _ in self._selector.select(min(patience, idle)):
            moved = True
            if isinstance(key.data, Capture):
                self._read(key, key.data)
            else:
                self._write(key)
        return moved

    def _read(self, key: selectors.SelectorKey, capture: Capture) -> None:
        chunk = os.read(key.fd, CHUNK_BYTES)
        if chunk:
            capture.add(chunk)
        else:
            self._forget(key)

    def _write(self, key: selectors.SelectorKey) -> None:
        try:
            sent = os.write(key.fd, self._unsent[:CHUNK_BYTES])
        except BrokenPipeError:
            self._unsent = self._unsent[:0]
        else:
            self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._forget(key)
