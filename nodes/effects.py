"""The journal: what was started outside of the graph, and what came of it.

LangGraph runs a task again whose result was not stored. What that task did in the world is done twice
then, and under the default durability the model may even ask again, with a new id for the same call.
So `act` writes an entry before and after every call that is not read-only, and looks here first.
"""

import base64
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_config
from langgraph.types import Command

INVOCATION_KEY: Final = "__skills_agent_run"
"""Where a run's id stands in `configurable`. Keys with two underscores stay out of checkpoints."""

Status = Literal["started", "paused", "done"]
"""`paused`: the tool itself asked a person, and runs again from its first line when it is answered."""

_SERDE = JsonPlusSerializer()


class Effect(NamedTuple):
    """What one call does, as digests: two calls with the same three do the same."""

    tool: str
    arguments: str
    skill: str
    """Of the content of the skill that the call names; empty where it names none."""
    digest: str
    """Of all three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call that is not read-only, of one thread. JSON-native but for `outputs`."""

    thread: str
    """Thread id, and the names of the nodes where the agent is a graph inside another one."""
    call_id: str
    tool: str
    arguments: str
    """Digest of the arguments."""
    skill: str
    """Digest of the content of the skill that the call names; empty where it names none."""
    digest: str
    """Digest of tool, arguments and skill: what a person approves."""
    run: str
    """Id of the run that started it last."""
    checkpoint: str
    """Id of the checkpoint that it started from."""
    started: str
    """Of the last attempt: ISO 8601, UTC."""
    attempt: int = 1
    status: Status = "started"
    ended: str | None = None
    exit_code: int | None = None
    """Of a script or program; None for other tools, and where it did not end by itself."""
    outputs: tuple[str, bytes] | None = None
    """What the tool gave, serialised: kind and bytes. None until it is done."""
    answers: int = 0
    """Answers of a person that a checkpoint may hand to this call again."""
    settled: bool = False
    """The run that did it has ended, and what it did is in the checkpoints of the thread."""

    @classmethod
    def of(cls, call_id: str, effect: Effect, run: "Invocation", checkpoint: str) -> Self:
        """Return the entry of a call that starts now."""
        return cls(
            thread=run.thread,
            call_id=call_id,
            tool=effect.tool,
            arguments=effect.arguments,
            skill=effect.skill,
            digest=effect.digest,
            run=run.id,
            checkpoint=checkpoint,
            started=now(),
        )

    def again(self, run: "Invocation", checkpoint: str) -> "Entry":
        """Return the entry of the next attempt, which starts now."""
        return replace(
            self,
            run=run.id,
            checkpoint=checkpoint,
            started=now(),
            attempt=self.attempt + 1,
            status="started",
            settled=False,
        )

    def done(self, produced: Any, exit_code: int | None = None) -> "Entry":
        """Return the entry with what the call gave."""
        return replace(
            self,
            status="done",
            ended=now(),
            exit_code=exit_code,
            outputs=_SERDE.dumps_typed(produced),
        )

    @property
    def produced(self) -> Any:
        """Return what the call gave, as the tool node handed it back."""
        return None if self.outputs is None else _SERDE.loads_typed(self.outputs)

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON-native values."""
        fields = asdict(self)
        if self.outputs is not None:
            kind, data = self.outputs
            fields["outputs"] = [kind, base64.b64encode(data).decode("ascii")]
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the entry that `as_json` told of."""
        outputs = fields["outputs"]
        return cls(**{**fields, "outputs": (outputs[0], base64.b64decode(outputs[1])) if outputs else None})


class Journal(Protocol):
    """Where entries are kept. What was written survives the end of the process.

    Every method may wait for a disk or a network; none is called on an event loop.
    """

    def get(self, thread: str, call_id: str) -> Entry | None:
        """Return the entry of a call."""
        ...

    def alike(self, thread: str, digest: str) -> list[Entry]:
        """Return the entries of a thread with this effect, the oldest start first."""
        ...

    def unsettled(self, thread: str) -> list[Entry]:
        """Return the entries of a thread that are done and not settled."""
        ...

    def put(self, entry: Entry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the removal of the entry of the call id `replacing`."""
        ...

    def forget(self, thread: str, *, kept: Collection[str] | None = None) -> None:
        """Remove the entries of a thread that is deleted.

        With `kept`, ids of the checkpoints that stay, only entries that no run of these can find: done,
        settled, and started from another checkpoint. `find` takes such a one for an earlier thread's.
        """
        ...


@dataclass(frozen=True)
class Invocation:
    """One run of one thread, as long as it lasts."""

    id: str
    thread: str
    namespace: str
    """The checkpoint namespace as it is: empty but for a graph inside another one."""
    journal: Journal
    has_checkpoint: Callable[[str], bool]
    """Tells whether a checkpoint of this thread is kept."""
    lock: Lock = field(default_factory=Lock)
    """Held while a call looks for its entry and claims it: alike calls in parallel must not claim one."""

    def settle(self) -> None:
        """Say that what the thread did is in its checkpoints: after a run that ended by itself.

        Entries of a run that was cut off are settled only where the checkpoint they started from is
        kept: what did not reach the checkpoints may have to be found again.
        """
        for entry in self.journal.unsettled(self.thread):
            if entry.run == self.id or self.has_checkpoint(entry.checkpoint):
                self.journal.put(replace(entry, settled=True))


class Invocations:
    """The runs of this process that have a thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._runs: dict[str, Invocation] = {}

    def add(self, run: Invocation) -> None:
        """Take a run that begins."""
        self._runs[run.id] = run

    def drop(self, run: Invocation) -> None:
        """Forget a run that has ended."""
        self._runs.pop(run.id, None)

    def is_alive(self, run_id: str) -> bool:
        """Tell whether a run goes on in this process. No other process runs the same thread."""
        return run_id in self._runs

    def now(self) -> Invocation | None:
        """Return the run that the calling node is part of; None where its thread is not kept."""
        return self._runs.get(get_config().get("configurable", {}).get(INVOCATION_KEY, ""))


Fate = Literal["new", "done", "unknown"]


class Wanted(NamedTuple):
    """A call that is looked for."""

    call_id: str
    digest: str
    """Of its effect."""
    earlier: Sequence[str] = ()
    """Ids of calls of the transcript with the same tool and arguments."""


class Found(NamedTuple):
    """What the journal knows of a call."""

    fate: Fate
    entry: Entry | None = None
    lost: bool = False
    """The entry is of another call id: that of a timeline which was lost."""


def find(wanted: Wanted, run: Invocation, is_alive: Callable[[str], bool]) -> Found:
    """Return what the journal knows of a call: by its id, else of the same effect under a lost id.

    A run that was cut off loses what its checkpoints had not got yet: then the model asks again, and
    its call has another id. Such an entry is in no transcript, and the checkpoint it started from does
    not exist. A result that is settled and whose checkpoint is gone belongs to an earlier thread of that
    name. An effect that somebody started and nobody finished is unknown, whatever its id.
    """
    own = run.journal.get(run.thread, wanted.call_id)
    if own is not None and own.digest == wanted.digest:
        if own.status == "started":
            return Found("unknown", own)
        if own.status == "done" and (not own.settled or run.has_checkpoint(own.checkpoint)):
            return Found("done", own)
    for entry in run.journal.alike(run.thread, wanted.digest):
        if entry.call_id == wanted.call_id or is_alive(entry.run):
            continue
        if entry.status == "started":
            return Found("unknown", entry, lost=True)
        if entry.status == "done" and _is_lost(entry, wanted, run):
            return Found("done", entry, lost=True)
    return Found("new", own if own is not None and own.status == "paused" else None)


def _is_lost(entry: Entry, wanted: Wanted, run: Invocation) -> bool:
    on_record = entry.settled or entry.call_id in wanted.earlier
    return not on_record and not run.has_checkpoint(entry.checkpoint)


def outcome_unknown(call_id: str, entry: Entry, decided: str) -> ToolMessage:
    """Return the answer to a call whose outcome nobody knows; `decided` says what becomes of it."""
    text = f"Outcome unknown: {unknown_text(entry)} {decided} Check what it would have changed."
    return ToolMessage(text, tool_call_id=call_id, name=entry.tool, status="error", id=f"unknown-{call_id}")


def unknown_text(entry: Entry) -> str:
    """Say what is known of a call that was cut off."""
    return (
        f"{entry.tool} was started at {entry.started} (attempt {entry.attempt}) and cut off before its "
        "result was kept. Whether it did its work is unknown."
    )


def tool_messages(produced: Any) -> list[ToolMessage]:
    """Return the answers in what a tool node handed back."""
    updates = [each.update if isinstance(each, Command) else each for each in as_list(produced)]
    return [
        message
        for update in updates
        if isinstance(update, dict)
        for message in update.get("messages", [])
        if isinstance(message, ToolMessage)
    ]


def as_list(produced: Any) -> list[Any]:
    """Return what a tool node handed back as a list: a dict, or a list where a tool returned Commands."""
    return list(produced) if isinstance(produced, list) else [produced]


def in_order(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries by their start."""
    return sorted(entries, key=lambda entry: (entry.started, entry.call_id))


def now() -> str:
    """Return the time: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
