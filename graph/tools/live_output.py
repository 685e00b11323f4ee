"""What a running program prints, told to clients while it runs: in lines, bounded in rate and size."""

import codecs
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from skills_agent.graph.audit.events import event
from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.tools.skills import ThreadRuntime
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.skills.scripts.report import TERMINAL_CODE
from skills_agent.skills.scripts.runner import STREAMS, Stream

FIRST_SECONDS: Final = 1.0
"""A program that ends sooner is told of by its result alone."""
BEAT_SECONDS: Final = 0.25
"""Between two pieces of a stream."""
PATIENCE_SECONDS: Final = 1.0
"""How long the end of a line is waited for: a question of a program has none."""
MAX_PIECE: Final = 1_500
"""Characters: of what comes faster, the end."""
MAX_TOLD: Final = 100_000
"""Characters of one program. All of what is kept stands in its result."""


Tell = Callable[[Stream, str, int], object]
"""Takes what a program has printed since the last time, and how many characters before it are left out."""


@dataclass
class _Pending:
    text: str = ""
    skipped: int = 0
    since: float = 0.0
    """When the oldest of it came."""
    decode: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )


class LiveOutput:
    """Gathers what one program prints, and tells it when there is a line and it is time."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._pending: dict[Stream, _Pending] = {stream: _Pending() for stream in STREAMS}
        self._next = clock() + FIRST_SECONDS
        self._room = MAX_TOLD
        self._has_told = False
        self._lock = Lock()

    def add(self, stream: Stream, chunk: bytes) -> None:
        """Take what came from a stream."""
        with self._lock:
            pending = self._pending[stream]
            if not pending.text:
                pending.since = self._clock()
            text = pending.text + pending.decode.decode(chunk)
            kept = text[-MAX_PIECE:]
            pending.skipped += len(text) - len(kept)
            pending.text = kept

    def tick(self) -> None:
        """Tell what there is, if it is time; called again and again."""
        with self._lock:
            if (now := self._clock()) >= self._next:
                self._next = now + BEAT_SECONDS
                for stream, pending in self._pending.items():
                    is_late = now - pending.since >= PATIENCE_SECONDS
                    lines = pending.text.rfind("\n") + 1
                    self._tell_some(stream, pending, len(pending.text) if is_late else lines)

    def end(self) -> None:
        """Tell the rest of a program that was told of while it ran."""
        with self._lock:
            for stream, pending in self._pending.items() if self._has_told else ():
                self._tell_some(stream, pending, len(pending.text))

    def _tell_some(self, stream: Stream, pending: _Pending, size: int) -> None:
        text, pending.text = _as_seen(pending.text[:size]), pending.text[size:]
        if not text.strip() or self._room <= 0:
            return
        self._room -= len(text)
        self._has_told = True
        more = "\n[what follows is not shown while it runs]" if self._room <= 0 else ""
        self._tell(stream, text + more, pending.skipped)
        pending.skipped, pending.since = 0, self._clock()


def _as_seen(text: str) -> str:
    """Return what a terminal would show: without its codes, of a line that is drawn over, the last state."""
    lines = TERMINAL_CODE.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def live_output(
    watcher: Audit,
    runtime: ThreadRuntime,
    tool: str,
    cancellation: Cancellation,
    command: str = "",
) -> LiveOutput:
    """Return what tells clients of the output of a call; of a command in the background, with its id."""
    call_id, write = runtime.tool_call_id or "", while_it_goes_on(runtime.stream_writer, cancellation)

    def tell(stream: Stream, text: str, skipped: int) -> None:
        of_command = {"command": command} if command else {}
        output = {"stream": stream, "output": text, "skipped": skipped}
        watcher.stream(event("call_output", of_command, call_id=call_id, tool=tool, **output), write)

    return LiveOutput(tell)


def while_it_goes_on(writer: Callable[[Any], object], cancellation: Cancellation) -> Callable[[Any], None]:
    """Return a writer that does nothing where its run was cancelled, and the event loop is closed."""

    def write(part: Any) -> None:
        try:
            writer(part)
        except RuntimeError:
            if not cancellation.is_requested:
                raise

    return write
