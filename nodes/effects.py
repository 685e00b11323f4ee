"""Effects: calls that do more than read, the journal of them, and the invocations that cause them.

LangGraph runs a task again whose result was not stored, and then the effect happens twice. Under the default
durability the model may even ask again, with a new id for the same call. So `act` writes an entry to the
journal before and after every effect, and looks for an earlier entry first.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final, Literal, NamedTuple, Protocol, Self

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command

from skills_agent.nodes.cancellation import Cancellation
from skills_agent.skills.errors import SkillError
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillRef

INVOCATION_KEY: Final = "__skills_agent_run"
"""Where an invocation's id stands in `configurable`. Keys with two underscores stay out of checkpoints."""

Status = Literal["allowed", "started", "paused", "done", "lost"]
"""`allowed`: it may begin, and has not yet: an entry that is missing later shows that the journal lost it.
`paused`: the tool itself asked a person, and runs again from its first line when it is answered.
`lost`: what the journal had of it is missing or damaged."""

_THREAD: Final = ""
"""Call id of the entry that says that a journal knows a thread: no call has an empty one."""

_SERDE = JsonPlusSerializer()


def effect_of(tool: str, args: Mapping[str, Any], place: SkillRef | None, registry: Registry) -> str:
    """Return the digest of what a call does: tool, arguments, and the snapshot of the skill at `place`.

    It is what a person approves: two calls with the same digest do the same.
    """
    skill = ""
    if place is not None:
        try:
            skill = registry.snapshot(place).digest
        except SkillError as error:
            skill = f"gone: {error.code}"
    return hashlib.sha256(json.dumps([tool, args, skill], sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """What is known of one effect of one thread. JSON-native but for `outputs`."""

    thread: str
    """Thread id, and the names of the nodes where the agent is a graph inside another one."""
    call_id: str
    tool: str
    digest: str
    """Of the effect."""
    run: str = ""
    """Id of the invocation that started the effect last."""
    checkpoint: str = ""
    """Id of the checkpoint that it started from."""
    started: str = ""
    """Of the last attempt: ISO 8601, UTC."""
    attempt: int = 1
    key: str = ""
    """The idempotency key, the same in every attempt; empty in entries of older versions."""
    status: Status = "started"
    outputs: tuple[str, bytes] | None = None
    """What the tool returned, serialised: kind and bytes. None until it is done."""
    answers: int = 0
    """Answers to questions about this call that belong to earlier attempts: the next one to the tool itself
    has this number, from 0."""
    settled: bool = False
    """The invocation has ended, and what it did is in the checkpoints of the thread."""

    @classmethod
    def of(cls, call_id: str, tool: str, digest: str, invocation: "Invocation", checkpoint: str) -> Self:
        """Return the entry of an effect that starts now."""
        entry = cls(thread=invocation.thread, call_id=call_id, tool=tool, digest=digest)
        return replace(entry, run=invocation.id, checkpoint=checkpoint, started=_timestamp())

    def again(self, invocation: "Invocation", checkpoint: str) -> "JournalEntry":
        """Return the entry of the next attempt, which starts now."""
        return replace(
            self,
            run=invocation.id,
            checkpoint=checkpoint,
            started=_timestamp(),
            attempt=self.attempt + 1,
            status="started",
            settled=False,
        )

    def done(self, produced: Any) -> "JournalEntry":
        """Return the entry with what the tool returned."""
        return replace(self, status="done", outputs=_SERDE.dumps_typed(produced))

    @classmethod
    def lost(cls, thread: str, call_id: str, digest: str, tool: str = "a call") -> Self:
        """Return what stands for an entry that is missing or damaged: nothing is known of its effect.

        Without a digest it may be that of any effect of the thread.
        """
        return cls(thread=thread, call_id=call_id, tool=tool, digest=digest, status="lost")

    @property
    def attempt_key(self) -> "AttemptKey":
        """Return what tells this attempt from all others."""
        return AttemptKey(self.thread, self.digest, self.started)

    @property
    def is_unknown(self) -> bool:
        """Return whether nobody knows if the effect took place."""
        return self.status not in {"allowed", "paused", "done"}

    @property
    def beginning(self) -> str:
        """Return what is known of the beginning of an effect, for the note to the model."""
        return f"Started at {self.clock} and cut off" if self.started else "Its journal entry is lost"

    @property
    def clock(self) -> str:
        """Return when the last attempt started, as a person says it: `14:03 UTC`; later with the date."""
        try:
            when = datetime.fromisoformat(self.started).astimezone()
        except ValueError:
            return "an unknown time"
        is_today = when.date() == datetime.now().astimezone().date()
        return f"{when:%H:%M %Z}" if is_today else f"{when:%H:%M %Z on %Y-%m-%d}"

    @property
    def as_json(self) -> dict[str, Any]:
        """Return what a question says of an effect whose outcome is unknown, for a machine."""
        return {
            "call_id": self.call_id,
            "attempt": self.attempt,
            "started": self.started,
            "text": self.description,
        }

    @property
    def description(self) -> str:
        """Return what is known of an effect that was cut off."""
        if self.started:
            return (
                f"{self.tool} was started at {self.clock} (attempt {self.attempt}) and cut off before its "
                "result was kept. Whether it did its work is unknown."
            )
        return (
            f"The journal has lost what it knew about {self.tool}: it was removed, damaged, or put back "
            "from an older copy. Whether it ran is unknown."
        )


class AttemptKey(NamedTuple):
    """One attempt at an effect, under whatever id of its call."""

    thread: str
    digest: str
    started: str


class Witness(NamedTuple):
    """What the audit says of the effects of a thread: the second witness, beside the journal."""

    started: Mapping[str, JournalEntry] = {}
    """By call id, without the thread. A call is on the record, and on the disk, before it begins."""
    ended: Container[str] = ()
    """Those of them that have ended."""
    judged: Container[str] = ()
    """Calls that a record mentions which is whole: of these, what did not start is known not to have."""

    def has_begun(self, call_id: str) -> bool | None:
        """Return whether a call began; None where nobody can tell."""
        if call_id in self.started:
            return True
        return False if call_id in self.judged else None


class Journal(Protocol):
    """The store of entries. What was written survives the end of the process.

    An entry of status `allowed` may be lost with the power: what comes after it may not.

    Every method may wait for a disk or a network; none is called on an event loop.
    """

    def get(self, thread: str, call_id: str) -> JournalEntry | None:
        """Return the entry of a call."""

    def alike(self, thread: str, digest: str) -> list[JournalEntry]:
        """Return the entries of a thread with this effect, the oldest start first.

        A damaged entry, of which nobody knows what effect it is of, is among them, without a digest.
        """

    def unsettled(self, thread: str) -> list[JournalEntry]:
        """Return the entries of a thread that are done and not settled."""

    def put(self, entry: JournalEntry, *, replacing: str | None = None) -> None:
        """Write an entry, in one step with the removal of the entry of the call id `replacing`."""

    def forget(self, thread: str) -> None:
        """Remove the entries of a thread that is deleted."""


@dataclass(frozen=True)
class Invocation:
    """One call of the compiled graph on one thread, as long as it lasts."""

    id: str
    thread: str
    journal: Journal
    has_checkpoint: Callable[[str], bool]
    """Returns whether a checkpoint of this thread is kept."""
    serializer: SerializerProtocol
    """Reads what tools returned, and nothing else that an entry may hold."""
    address: Callable[[], str] = str
    """Returns where the thread is kept; empty where nobody has to know."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    is_lasting: bool = True
    """False where thread and journal end with the process: nothing is looked for of them later."""
    ask_witness: Callable[[], Witness] = Witness
    """Reads what the audit says of this thread."""
    check_lock: Callable[[], object] = lambda: None
    """Raises where the lock of the thread is lost: then nothing more is begun."""
    doubted: dict[str, JournalEntry] = field(default_factory=dict)
    """Damaged entries that may be of any effect, by call id: they count until the turn has ended."""
    announced: set[str] = field(default_factory=set)
    """Ids of calls that were first allowed by this invocation, and have not begun."""
    forks: list["Invocation"] = field(default_factory=list)
    """Those inside of it that have ended."""
    lock: Lock = field(default_factory=Lock)
    """Held while a call looks for its entry and claims it: parallel calls alike must not claim the same."""

    def produced(self, entry: JournalEntry) -> Any:
        """Return what the tool of an entry returned, as LangGraph's ToolNode handed it back.

        Raises RecordTypeError.
        """
        return None if entry.outputs is None else self.serializer.loads_typed(entry.outputs)

    def settle(self, is_over: Callable[[], bool] = lambda: False, around: "Invocation | None" = None) -> None:
        """Note that what the thread did is in its checkpoints, after an invocation that ended by itself.

        Entries of an invocation that was cut off are settled where the checkpoint that they started from is
        kept: what did not reach the checkpoints may have to be found again, until a turn has ended without
        it (`is_over`). Then the same call is another one, on purpose. What a fork did is as safe as its
        result in the thread around it: it is settled with what is done `around`.
        """
        if around is not None:
            around.forks.append(self)
            return
        for fork in self.forks:
            replace(fork, journal=self.journal).settle(is_over)  # Its own is of a lock that is given back.
        left: list[JournalEntry] = [*self.doubted.values()]
        for entry in self.journal.unsettled(self.thread):
            if entry.run == self.id or self.has_checkpoint(entry.checkpoint):
                self.journal.put(replace(entry, settled=True))
            else:
                left.append(entry)
        if left and is_over():
            for entry in left:
                self.journal.put(replace(entry, settled=True))

    def announce(self, call_id: str, tool: str, digest: str, answered: Container[str]) -> None:
        """Write that a call may begin, unless the journal knows it: without an entry it is lost from now on.

        A journal that does not know the thread may have been lost with what went before. `answered` are the
        ids of the calls that the transcript has an answer to.
        """
        if self.journal.get(self.thread, _THREAD) is None:
            self._restore(answered)
            self.journal.put(self._allowed(_THREAD, "", "thread"))
        if self.journal.get(self.thread, call_id) is None:
            self.journal.put(self._allowed(call_id, tool, digest))
            self.announced.add(call_id)

    def _restore(self, answered: Container[str]) -> None:
        witness = self.ask_witness()
        for call_id, entry in witness.started.items():
            is_told = call_id in witness.ended and call_id in answered
            if not is_told and self.journal.get(self.thread, call_id) is None:
                self.journal.put(replace(entry, thread=self.thread))

    def _allowed(self, call_id: str, tool: str, digest: str) -> JournalEntry:
        return replace(JournalEntry.of(call_id, tool, digest, self, ""), status="allowed")

    def known(
        self, call_id: str, tool: str, digest: str, *, is_announced: bool = False
    ) -> JournalEntry | None:
        """Return what is known of a call by its id; None where it did not begin.

        `is_announced`: the journal had an entry of it before it was allowed. So it is of status `lost` where
        that is missing, or has not the beginning that the audit has, unless the audit knows that it did not
        begin.
        """
        entry = self.journal.get(self.thread, call_id)
        is_missing = entry is None and is_announced
        if (entry is None or entry.status != "allowed") and not is_missing:
            return entry
        if call_id in self.announced:  # Nobody else can have begun it: the thread is locked.
            return None
        has_begun = self.ask_witness().has_begun(call_id)
        is_lost = has_begun or (is_missing and has_begun is None)
        return JournalEntry.lost(self.thread, call_id, digest, tool) if is_lost else None

    def find_entry(
        self,
        call_id: str,
        tool: str,
        digest: str,
        earlier: Collection[str],
        alive: Container[str],
        *,
        is_announced: bool = False,
    ) -> JournalEntry | None:
        """Return what the journal knows of a call: by its id, else by its effect under a lost id.

        An invocation that was cut off loses what its checkpoints had not got yet: then the model asks again,
        and its call has another id. The lost entry is in no transcript, and the checkpoint that it started
        from does not exist. A settled result whose checkpoint is gone belongs to an earlier thread of that
        name.

        `earlier` are the ids of calls of the transcript with the same tool and arguments, `alive` those of
        the invocations that go on: no other process runs the same thread.
        """
        own = self.known(call_id, tool, digest, is_announced=is_announced)
        if own is not None and (own.digest == digest or own.status == "lost"):
            if own.status == "lost":
                damaged = self.journal.alike(self.thread, "")
                self.doubted.update({entry.call_id: entry for entry in damaged if not entry.settled})
            is_kept = own.status == "done" and (not own.settled or self.has_checkpoint(own.checkpoint))
            if own.is_unknown or is_kept:
                return own
        for entry in self.journal.alike(self.thread, digest):
            if entry.call_id == call_id or entry.run in alive or (entry.settled and entry.is_unknown):
                continue
            if entry.is_unknown:
                return entry
            is_on_record = entry.settled or entry.call_id in earlier
            if entry.status == "done" and not is_on_record and not self.has_checkpoint(entry.checkpoint):
                return entry
        return own if own is not None and own.status == "paused" else None


def messages_in(produced: Any) -> list[BaseMessage]:
    """Return the messages in what a ToolNode handed back."""
    updates = [each.update if isinstance(each, Command) else each for each in as_list(produced)]
    lists = [update.get("messages", []) for update in updates if isinstance(update, dict)]
    return [message for each in lists for message in as_list(each) if isinstance(message, BaseMessage)]


def tool_messages(produced: Any) -> list[ToolMessage]:
    """Return the tool messages in what a ToolNode handed back."""
    return [message for message in messages_in(produced) if isinstance(message, ToolMessage)]


def as_list(produced: Any) -> list[Any]:
    """Return what a ToolNode handed back as a list: it is a dict unless a tool returned Commands."""
    return list(produced) if isinstance(produced, list) else [produced]


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
