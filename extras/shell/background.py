"""Commands in the background: each runs in a thread of this process, and ends with a run of its thread."""

import atexit
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from typing import Any, Final

from skills_agent.graph.threads.left_running import END_SECONDS
from skills_agent.skills.errors import ScriptError, SkillError
from skills_agent.skills.scripts.output import Capture
from skills_agent.skills.scripts.runner import (
    STREAMS,
    ScriptRequest,
    ScriptResult,
    ScriptRunner,
    Stop,
    Stream,
)

MAX_OF_RUN: Final = 4
"""Commands of one run at a time."""
MAX_OF_PROCESS: Final = 16
MAX_KEPT: Final = 64
"""Commands that have ended, whose last output can still be asked for."""


def new_id() -> str:
    """Return an id that nobody guesses."""
    return f"cmd-{secrets.token_hex(4)}"


@dataclass(eq=False)
class BackgroundCommand:
    """A command that was started, and what it prints."""

    id: str
    thread: str
    """Of the conversation: no other one gets to know of it."""
    ends_with: str
    """The run that it ends with; empty while a person is asked."""
    request: ScriptRequest
    max_output: int = 100_000
    held: ExitStack = field(default_factory=ExitStack)
    """What is not given up before it has ended."""
    stopped: Stop | None = None
    """Why it is to end."""
    has_ended: Event = field(default_factory=Event)
    """Set when all is done that follows from its end."""
    result: ScriptResult | None = None
    """None while it runs, and where it failed."""
    failure: str = ""
    """Why it could not be run to its end; empty where it was."""
    record: Mapping[str, Any] | None = None
    """What clients are told of its end."""

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._seconds: float | None = None
        self._lock = Lock()
        self._new = self._captures()

    def take(self, stream: Stream, chunk: bytes) -> None:
        """Keep what came from a stream until the next look."""
        with self._lock:
            self._new[stream].add(chunk)

    @property
    def seconds(self) -> float:
        """Return how long it has run."""
        return time.monotonic() - self._started if self._seconds is None else self._seconds

    def look(self) -> tuple[str, str]:
        """Return what came of both streams since the last look: the beginning and the end, if it is much."""
        with self._lock:
            new, self._new = self._new, self._captures()
        return new["stdout"].text(), new["stderr"].text()

    def unseen(self, size: int) -> str:
        """Return the last characters of what nobody has looked at; they stay new."""
        with self._lock:
            text = "\n".join(filter(None, (self._new[stream].text().strip() for stream in STREAMS)))
        return text[-size:]

    def stop(self, reason: Stop) -> None:
        """Ask it to end, with all it started."""
        self.stopped = self.stopped or reason

    def run(self, runner: ScriptRunner) -> None:
        """Run it to its end."""
        try:
            self.result = runner.run(self.request)
        except BaseException as error:
            self.failure = str(error) if isinstance(error, SkillError) else "The agent failed to run it on."
            if not isinstance(error, SkillError):
                raise
        finally:
            self._seconds = time.monotonic() - self._started

    def _captures(self) -> dict[Stream, Capture]:
        return {stream: Capture(self.max_output) for stream in STREAMS}


class BackgroundCommands:
    """The commands of this process that run in the background, and the last ones that did."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._commands: dict[str, BackgroundCommand] = {}

    def start(
        self,
        command: BackgroundCommand,
        runner: ScriptRunner,
        part: AbstractContextManager[object],
        on_output: Callable[[Stream, bytes], object],
        on_end: Callable[[BackgroundCommand], object],
    ) -> None:
        """Start a command.

        `part` is held as long as it runs with its run; `on_end` is called when it has ended.

        Raises ScriptError where it cannot be started, or where too many run.
        """
        request = replace(command.request, in_background=True)
        runner.preflight(request)

        def stop() -> Stop | None:
            return command.stopped or request.stop()

        def take(stream: Stream, chunk: bytes) -> None:
            command.take(stream, chunk)
            on_output(stream, chunk)

        command.request = replace(request, stop=stop, on_output=take)

        def work() -> None:
            with command.held:
                try:
                    command.run(runner)
                    on_end(command)
                finally:
                    command.has_ended.set()

        with self._lock:
            self._make_room(command.ends_with)
            if not self._commands:
                atexit.register(self.end_all)
            self._commands[command.id] = command
            command.held.enter_context(part)
        # A daemon: a stream that nobody closes must not keep the process from ending.
        Thread(target=copy_context().run, args=(work,), name=command.id, daemon=True).start()

    def _make_room(self, run: str) -> None:
        running = self._running()
        own = [each.id for each in running if each.ends_with == run]
        if len(own) >= MAX_OF_RUN:
            raise ScriptError(
                f"Not started: {len(own)} commands run in the background ({', '.join(own)}), and no more "
                "may. End one with stop_command."
            )
        if len(running) >= MAX_OF_PROCESS:
            raise ScriptError("Not started: too many commands run in the background of this agent now.")
        ended = [command.id for command in self._commands.values() if command.has_ended.is_set()]
        for each in ended[: max(0, len(ended) - MAX_KEPT + 1)]:
            del self._commands[each]

    def find(self, thread: str, command: str) -> BackgroundCommand | None:
        """Return a command of a conversation; None for one that this process knows nothing of."""
        found = self._commands.get(command)
        return found if found and found.thread == thread else None

    def _running(self) -> list[BackgroundCommand]:
        return [command for command in self._commands.values() if not command.has_ended.is_set()]

    def of_run(self, run: str) -> list[BackgroundCommand]:
        """Return the commands of a run that have not ended."""
        with self._lock:
            return [each for each in self._running() if each.ends_with == run]

    def has_of(self, run: str) -> bool:
        """Return whether commands of a run have not ended."""
        return bool(self.of_run(run))

    def leave(self, run: str) -> None:
        """Let the commands of a run go on until a later one of their thread takes them."""
        for each in self.of_run(run):
            each.ends_with = ""
            each.held.close()

    def take(self, thread: str, run: str) -> None:
        """Give a run the commands of a conversation that an earlier one left."""
        for each in self.of_run(""):
            if each.thread == thread:
                each.ends_with = run

    def end(self, run: str, seconds: float = END_SECONDS) -> list[Mapping[str, Any]]:
        """End the commands of a run, wait so long for them, and return what clients are told of that."""
        return [command.record for command in _end(self.of_run(run), "run", seconds) if command.record]

    def end_all(self) -> None:
        """End every command: the process ends."""
        _end(self._running(), "shutdown")


def _end(
    commands: list[BackgroundCommand], reason: Stop, seconds: float = END_SECONDS
) -> list[BackgroundCommand]:
    for command in commands:
        command.stop(reason)
    end = time.monotonic() + seconds
    for command in commands:
        command.has_ended.wait(max(0, end - time.monotonic()))
    return commands
