"""Go on from an earlier step of a thread, in a new thread; the old one stays as it is.

The new thread begins with a copy of the step's checkpoint in which the delta channels are stored whole, so
it depends on nothing of the old thread. A call that has no answer at that step never just runs: the old
thread may have run it since. Either its question is copied as it stands open, or the gate judges the calls
anew.
"""

import json
import secrets
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointTuple, copy_checkpoint
from langgraph.checkpoint.serde.types import INTERRUPT, _DeltaSnapshot
from langgraph.pregel._algo import task_path_str
from langgraph.types import PregelTask, StateSnapshot

from skills_agent.graph.audit.events import ThreadForked
from skills_agent.graph.threads.database import KEPT, config_of
from skills_agent.graph.threads.errors import ForkError
from skills_agent.graph.threads.history import Archive, Status, status_of
from skills_agent.graph.threads.steps import FORKED_FROM, Step, find_step
from skills_agent.state.ledger import active_skills
from skills_agent.state.records import GrantRecord, LoadedSkill
from skills_agent.state.transcript import (
    answered_ids,
    last_human,
    open_calls,
    refusal,
    wants_skills,
)

DENIED = "Not run: a person refused this call when the conversation was forked."
_OF_THE_OLD = {"counters_since_delta_snapshot", FORKED_FROM}
NO_TASK = "00000000-0000-0000-0000-000000000000"
"""Task id of what was written to a waiting thread from outside, such as a revocation."""


class Fork(NamedTuple):
    """What a fork came to."""

    thread: str
    origin: str
    """The thread that it was made from."""
    step: int
    status: Status
    ran_before: tuple[ToolCall, ...]
    """Calls that are open in the fork and that the old thread has answered since."""

    def as_json(self, resume: str) -> dict[str, Any]:
        """Return the fork for a machine; `resume` is the command that goes on with it."""
        return {**self._asdict(), "resume": resume}


def fork_thread(
    archive: Archive,
    thread: str,
    at: str,
    *,
    new: str | None = None,
    without_skills: Sequence[str] = (),
    deny: Sequence[str] = (),
) -> Fork:
    """Copy a thread as it was at a step into a new one, and return how it stands.

    `without_skills` are unloaded in the copy; the calls of `deny` are answered as refused. Raises
    UnknownThreadError, UnknownStepError, and ForkError for a skill that is not loaded at that step, for a
    call that is not open, and for a new name that is taken.
    """
    step = find_step(archive, thread, at)
    new = new or f"t-{secrets.token_hex(4)}"
    if archive.snapshot(new).created_at is not None:
        raise ForkError(f"There is a thread {new!r} already. Choose another name.")
    source = _Source(archive, thread, step)
    source.unload(without_skills)
    source.check_open(deny)
    if source.waits and not (without_skills or deny):
        source.copy(new)
        source.copy_question(new)
        source.tell(new, without_skills, deny)
    else:
        source.take_results()
        source.copy(new)
        source.tell(new, without_skills, deny)
        if deny or source.asking or "act" in step.next:
            source.judge_anew(new, deny)
    forked = archive.snapshot(new)
    return Fork(new, thread, step.number, status_of(forked), _answered_since(archive, thread, forked))


def _answered_since(archive: Archive, thread: str, forked: StateSnapshot) -> tuple[ToolCall, ...]:
    since = answered_ids(archive.snapshot(thread).values.get("messages") or [])
    return tuple(call for call in open_calls(forked.values.get("messages") or []) if call["id"] in since)


class _Source:
    """One step of a thread, and what of it goes into the copy."""

    def __init__(self, archive: Archive, thread: str, step: Step) -> None:
        self.archive = archive
        self.thread = thread
        self.origin = f"{thread}@{step.number}"
        self.number = step.number
        config = _at(thread, step.checkpoint)
        found = archive.saver.get_tuple(config)
        assert found is not None  # noqa: S101 - it was just listed
        self.found: CheckpointTuple = found
        self.snapshot = archive.runs.get_state(config)
        self.is_newest = archive.snapshot(thread).config["configurable"]["checkpoint_id"] == step.checkpoint
        self.written: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for task, channel, value in found.pending_writes or []:
            self.written[task].append((channel, value))
        self.asking = [task for task in self.snapshot.tasks if self._wrote(task, INTERRUPT)]
        self.values: dict[str, Any] = dict(self.snapshot.values)
        self.changed: set[str] = set()
        # A grant that was revoked while the step waited stays revoked.
        self._add(self.written[NO_TASK])

    @property
    def waits(self) -> bool:
        """Tell whether the step waits for a person and for nothing else: the calls beside it have ended."""
        beside = [task for task in self.snapshot.tasks if task not in self.asking and task.name == "act"]
        asked = bool(self.asking) and all(task.name == "approve" for task in self.asking)
        return asked and all(self._results(task) for task in beside)

    def unload(self, names: Sequence[str]) -> None:
        """Unload skills in the copy; raises ForkError for one that is not loaded."""
        ledger: dict[str, LoadedSkill] = dict(self.values.get("skills_loaded") or {})
        active = active_skills(ledger)
        for name in names:
            if name not in active:
                listed = ", ".join(sorted(active)) or "none"
                raise ForkError(f"Skill {name!r} is not loaded at this step. Loaded: {listed}.")
            order = 1 + max(skill["order"] for skill in ledger.values())
            ledger[name] = {**ledger[name], "unloaded": True, "order": order}
        self._set("skills_loaded", ledger)

    def check_open(self, calls: Sequence[str]) -> None:
        """Raise ForkError for a call that has its answer at this step, or does not exist."""
        messages = self.values.get("messages") or []
        open_ids = [call["id"] for call in open_calls(messages)]
        for call in calls:
            if call in answered_ids(messages):
                raise ForkError(f"Call {call!r} is answered at this step. Fork at an earlier one.")
            if call not in open_ids:
                listed = ", ".join(str(each) for each in open_ids) or "none"
                raise ForkError(f"There is no call {call!r} to answer at this step. Open calls: {listed}.")

    def take_results(self) -> None:
        """Take what ended beside an open question, or before the thread was cut off, into the copy."""
        if self.asking or self.is_newest:
            for task in self.snapshot.tasks:
                if task not in self.asking:
                    self._add(self._results(task))

    def copy(self, new: str) -> None:
        """Write the first checkpoint of the copy: the step's own, with every channel whole."""
        checkpoint = whole_checkpoint(self.archive, self.found, self.values, self.changed)
        told = {key: value for key, value in self.found.metadata.items() if key not in _OF_THE_OLD}
        metadata: Any = {**told, "source": "fork", FORKED_FROM: self.origin}
        self.archive.saver.put(_at(new), checkpoint, metadata, checkpoint["channel_versions"])

    def tell(self, new: str, without_skills: Sequence[str], deny: Sequence[str]) -> None:
        """Let the record of the copy begin with where it comes from."""
        human = last_human(self.values.get("messages") or [])
        event = ThreadForked(
            source=self.thread,
            at=str(self.found.checkpoint["id"]),
            request=str(human.text) if human else "",
            without_skills=list(without_skills),
            denied=list(deny),
        )
        self.archive.runs.keeper.audit.forked(new, event, (self.values.get("usage") or {}).get("turn", 0))

    def copy_question(self, new: str) -> None:
        """Copy the open question, and the results of what ran beside it."""
        for task in self.snapshot.tasks:
            asked = [write for write in self.written[task.id] if write[0] == INTERRUPT]
            if kept := asked if task in self.asking else self._results(task):
                config = _at(new, self.found.checkpoint["id"])
                self.archive.saver.put_writes(config, kept, task.id, task_path_str(task.path))

    def judge_anew(self, new: str, deny: Sequence[str]) -> None:
        """Answer calls as refused, and lead the others to where they are judged."""
        update: dict[str, Any] = {"verdicts": {}, "admissions": [], "grants": {}, "messages": []}
        messages = self.values.get("messages") or []
        for call in open_calls(messages):
            if (call_id := call["id"] or "") in deny:
                update["messages"].append(refusal(call_id, call["name"], DENIED))
                update["grants"][call_id] = _rejected(call)
        config = config_of(new, json.loads(str(dict(self.found.metadata).get(KEPT, "{}"))))
        # Not as `decide`: its route sees the few steps that an update has left, and ends the turn.
        as_node = "discover" if wants_skills([*messages, *update["messages"]]) else "load"
        self.archive.runs.update_state(config, update, as_node=as_node)

    def _add(self, writes: Sequence[tuple[str, Any]]) -> None:
        """Add writes to the values, as LangGraph would at the end of the step."""
        for name, value in writes:
            channel = self.archive.runs.channels.get(name)
            if isinstance(channel, DeltaChannel):
                self._set(name, channel.reducer(self.values.get(name), [value]))
            elif isinstance(channel, BinaryOperatorAggregate):
                self._set(name, channel.operator(self.values.get(name), value))

    def _set(self, name: str, value: Any) -> None:
        self.values[name] = value
        self.changed.add(name)

    def _wrote(self, task: PregelTask, channel: str) -> bool:
        return any(name == channel for name, _ in self.written[task.id])

    def _results(self, task: PregelTask) -> list[tuple[str, Any]]:
        """Return what a task that ended wrote; nothing of one that failed, asks or was cut off."""
        return [write for write in self.written[task.id] if write[0] not in WRITES_IDX_MAP]


def whole_checkpoint(
    archive: Archive, found: CheckpointTuple, values: Mapping[str, Any], changed: Collection[str] = ()
) -> Checkpoint:
    """Return a checkpoint with its delta channels stored whole: it depends on none before it.

    `values` are the channels as they are at that checkpoint, but for those that are named in `changed`.
    """
    checkpoint = copy_checkpoint(found.checkpoint)
    versions = checkpoint["channel_versions"]
    newest = max(versions.values())
    for name, channel in archive.runs.channels.items():
        if name in values and (name in versions or name in changed):
            if isinstance(channel, DeltaChannel):
                checkpoint["channel_values"][name] = _DeltaSnapshot(values[name])
            elif name in changed:
                checkpoint["channel_values"][name] = values[name]
            versions.setdefault(name, newest)
    return checkpoint


def _rejected(call: ToolCall) -> GrantRecord:
    return GrantRecord(
        id=call["id"] or "",
        scope="call",
        tool=call["name"],
        decision="reject",
        args=call["args"],
        message="",
        revoked=False,
    )


def _at(thread: str, checkpoint: str | None = None) -> RunnableConfig:
    place = {"thread_id": thread, "checkpoint_ns": ""}
    return RunnableConfig(configurable=place | ({"checkpoint_id": checkpoint} if checkpoint else {}))
