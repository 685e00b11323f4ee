"""Watch one supervised program from its start to its end: feed it, read it, stop it, clean up after it."""

import os
import selectors
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final

from skills_agent.skills.scripts.capture import Capture
from skills_agent.skills.scripts.runner import Stop
from skills_agent.skills.scripts.supervised import Supervised

GRACE_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL."""

LOOKOUT_SECONDS: Final = 0.1
"""Between two questions whether the agent is being shut down."""

FLOOD_FACTOR: Final = 100
"""A program that writes this many times the kept output is stopped."""

CHUNK_BYTES: Final = 64 * 1024
DRAIN_CHUNKS: Final = 32
"""Read at most after the end: twice what a pipe holds where an unprivileged user has enlarged it."""

KILL_SECONDS: Final = 10
"""How long the end of everything is waited for: a process in a dead network file system never ends."""


class Watch:
    """One program with its streams.

    Only the program itself is waited for: a daemon that keeps its output open holds up nothing.
    """

    def __init__(self, run: Supervised, stdin: bytes, stdout: Capture, stderr: Capture, flood: int) -> None:
        """Take over the streams; `stdin` is written where the program has a pipe for it.

        `flood` is how many bytes of a stream are taken before the program is stopped.
        """
        self._run = run
        self._unsent = memoryview(stdin)
        self._flood = flood
        self._selector = selectors.DefaultSelector()
        self._captures = (stdout, stderr)
        self._said = bytearray()
        self._alive = True
        self._selector.register(run.status, selectors.EVENT_READ, None)
        self._watch(run.stdout, selectors.EVENT_READ, stdout)
        self._watch(run.stderr, selectors.EVENT_READ, stderr)
        self._watch(run.stdin, selectors.EVENT_WRITE, None)

    @property
    def said(self) -> str:
        """What the supervisor reported so far."""
        return self._said.decode("ascii")

    def until_end(self, deadline: float, shutdown: Callable[[], bool]) -> Stop | None:
        """Return why it was ended here, or None. `deadline` is a time of the monotonic clock."""
        while self._alive:
            now = time.monotonic()
            if shutdown():
                self._stop()
                return "shutdown"
            if now >= deadline:
                self._stop()
                return "time"
            if max(capture.total for capture in self._captures) > self._flood:
                self._stop()
                return "output"
            self._transfer(min(deadline - now, LOOKOUT_SECONDS))
        return None

    def clean_up(self) -> None:
        """End every process of the run, keep what it still wrote, and give everything back."""
        self._run.end()
        self._while_alive(KILL_SECONDS)
        for _ in range(DRAIN_CHUNKS):
            if not self._transfer(0):
                break
        for key in list(self._selector.get_map().values()):
            self._forget(key)
        self._selector.close()
        for capture in self._captures:
            capture.close()
        self._run.release(self.said)

    def _stop(self) -> None:
        self._run.ask_to_end()
        self._while_alive(GRACE_SECONDS)

    def _while_alive(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._alive and (left := end - time.monotonic()) > 0:
            self._transfer(left)

    def _watch(self, pipe: IO[bytes] | None, event: int, capture: Capture | None) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, capture)

    def _forget(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        if not isinstance(key.fileobj, int):
            with suppress(BrokenPipeError):
                key.fileobj.close()  # type: ignore[attr-defined]  # typeshed: HasFileno has no close

    def _transfer(self, patience: float) -> bool:
        """Move what can be moved within `patience` seconds; False when nothing could."""
        moved = False
        for key, _ in self._selector.select(patience):
            moved = True
            if isinstance(key.data, Capture):
                self._read(key, key.data)
            elif key.fd == self._run.status:
                self._listen(key)
            else:
                self._write(key)
        return moved

    def _listen(self, key: selectors.SelectorKey) -> None:
        line = os.read(key.fd, CHUNK_BYTES)
        self._said += line
        if not line:
            self._alive = False
            self._forget(key)

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
