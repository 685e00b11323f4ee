"""Go on from an earlier step of a thread, in a new thread that depends on nothing of the old one.

A call that has no answer at that step never just runs: the old thread may have run it since. Either its
question is copied as it stands open, or the gate judges the calls anew.
"""

import json
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages.tool import ToolCall
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointTuple, copy_checkpoint
from langgraph.types import PregelTask

from skills_agent.graph.audit.events import ThreadForked
from skills_agent.graph.langgraph_inside import (
    QUESTION,
    UPDATE_TASK,
    task_path,
)
from skills_agent.graph.threads.compiled import CompiledAgent, ThreadStatus, status_of
from skills_agent.graph.threads.database import OPTIONS, config_of
from skills_agent.graph.threads.errors import ForkError
from skills_agent.graph.threads.steps import FORKED_FROM, ThreadStep, find_step
from skills_agent.skills.errors import list_names
from skills_agent.state.records import GrantRecord, LoadedSkill, active_skills
from skills_agent.state.transcript import answered_ids, last_human, open_calls, refusal, wants_skills

DENIED = "Not run: a person refused this call when the conversation was forked."

_COUNTERS: Final = "counters_since_delta_snapshot"
"""In the metadata of a checkpoint: how far each delta channel is from its last whole value."""


class Fork(NamedTuple):
    """A thread that was made from a step of another one."""

    thread: str
    origin: str
    """The thread that it was made from."""
    step: int
    status: ThreadStatus
    ran_before: tuple[ToolCall, ...]
    """Calls that are open in the fork and that the old thread has answered since."""


def fork_thread(
    graph: CompiledAgent,
    thread: str,
    at: str,
    *,
    new: str | None,
    without_skills: Sequence[str],
    deny: Sequence[str],
) -> Fork:
    """Copy a thread as it was at a step into a new one, and return how it stands: see `Threads.fork`."""
    step = find_step(graph, thread, at)
    new = new or f"t-{secrets.token_hex(4)}"
    if graph.get_state(config_of(new)).created_at is not None:
        raise ForkError(f"There is a thread {new!r} already. Choose another name.")
    source = _Source(graph, thread, step)
    source.unload(without_skills)
    source.check_open(deny)
    keeps_question = source.waits and not (without_skills or deny)
    if not keeps_question:
        source.take_results()
    source.copy(new)
    if keeps_question:
        source.copy_question(new)
    source.record(new, without_skills, deny)
    if not keeps_question and (deny or source.asking or "act" in step.next):
        source.judge_anew(new, deny)
    copy = graph.get_state(config_of(new))
    since = answered_ids(graph.get_state(config_of(thread)).values.get("messages") or [])
    ran_before = tuple(call for call in open_calls(copy.values.get("messages") or []) if call["id"] in since)
    return Fork(new, thread, step.number, status_of(copy), ran_before)


class _Source:
    def __init__(self, graph: CompiledAgent, thread: str, step: ThreadStep) -> None:
        self.graph = graph
        self.saver = graph.saver_of(thread)
        self.thread = thread
        self.origin = f"{thread}@{step.number}"
        config = config_of(thread, checkpoint=step.checkpoint)
        stored = self.saver.get_tuple(config)
        assert stored is not None  # noqa: S101 - it was just listed
        self.stored: CheckpointTuple = stored
        self.snapshot = graph.get_state(config)
        self.writes: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for task, channel, value in stored.pending_writes or []:
            self.writes[task].append((channel, value))
        self.asking = [
            task for task in self.snapshot.tasks if any(name == QUESTION for name, _ in self.writes[task.id])
        ]
        self.values: dict[str, Any] = dict(self.snapshot.values)
        self.changed: set[str] = set()
        # A grant that was revoked while the step waited stays revoked.
        self._add(self.writes[UPDATE_TASK])

    @property
    def waits(self) -> bool:
        # For a person and for nothing else: the calls beside it have ended.
        beside = [task for task in self.snapshot.tasks if task not in self.asking and task.name == "act"]
        is_asking = bool(self.asking) and all(task.name == "approve" for task in self.asking)
        return is_asking and all(self._results(task) for task in beside)

    def unload(self, names: Sequence[str]) -> None:
        ledger: dict[str, LoadedSkill] = dict(self.values.get("skills_loaded") or {})
        active = active_skills(ledger)
        for name in names:
            if name not in active:
                loaded = list_names(sorted(active))
                raise ForkError(f"Skill {name!r} is not loaded at this step. Loaded: {loaded}.")
            order = 1 + max(skill["order"] for skill in ledger.values())
            ledger[name] = {**ledger[name], "unloaded": True, "order": order}
        self.values["skills_loaded"] = ledger
        self.changed.add("skills_loaded")

    def check_open(self, calls: Sequence[str]) -> None:
        open_ids = [call["id"] for call in open_calls(self.values.get("messages") or [])]
        for call in calls:
            if call not in open_ids:
                raise ForkError(f"Call {call!r} is not open at this step. Open: {list_names(open_ids)}.")

    def take_results(self) -> None:
        """Add the results of calls that ended beside an open question, or before the thread was cut off."""
        newest = self.graph.get_state(config_of(self.thread)).config["configurable"]["checkpoint_id"]
        if self.asking or newest == self.stored.checkpoint["id"]:
            for task in self.snapshot.tasks:
                if task not in self.asking:
                    self._add(self._results(task))

    def copy(self, new: str) -> None:
        if verdicts := self.values.get("verdicts"):
            self.values["verdicts"] = _unannounced(verdicts)
            self.changed.add("verdicts")
        checkpoint, dropped = self._whole_checkpoint(), (_COUNTERS, FORKED_FROM)
        metadata = {key: value for key, value in self.stored.metadata.items() if key not in dropped}
        metadata |= {"source": "fork", FORKED_FROM: self.origin}
        self.saver.put(config_of(new), checkpoint, metadata, checkpoint["channel_versions"])  # type: ignore[arg-type]  # no TypedDict of ours

    def record(self, new: str, without_skills: Sequence[str], deny: Sequence[str]) -> None:
        human = last_human(self.values.get("messages") or [])
        event = ThreadForked(
            source=self.thread,
            at=str(self.stored.checkpoint["id"]),
            request=str(human.text) if human else "",
            without_skills=list(without_skills),
            denied=list(deny),
        )
        turn = (self.values.get("usage") or {}).get("turn", 0)
        self.graph.services.audit.record_fork(new, event, turn)

    def copy_question(self, new: str) -> None:
        for task in self.snapshot.tasks:
            questions = [write for write in self.writes[task.id] if write[0] == QUESTION]
            if writes := questions if task in self.asking else self._results(task):
                config = config_of(new, checkpoint=self.stored.checkpoint["id"])
                writes = [
                    (name, _unannounced(value) if name == "verdicts" else value) for name, value in writes
                ]
                self.saver.put_writes(config, writes, task.id, task_path(task.path))

    def judge_anew(self, new: str, deny: Sequence[str]) -> None:
        update: dict[str, Any] = {"verdicts": {}, "admissions": [], "grants": {}, "messages": []}
        messages = self.values.get("messages") or []
        for call in open_calls(messages):
            if (call_id := call["id"] or "") in deny:
                update["messages"].append(refusal(call_id, call["name"], DENIED))
                update["grants"][call_id] = GrantRecord(
                    id=call_id,
                    scope="call",
                    tool=call["name"],
                    decision="reject",
                    args=call["args"],
                    message="",
                    revoked=False,
                )
        config = config_of(new, json.loads(str(dict(self.stored.metadata).get(OPTIONS, "{}"))))
        # Not as `decide`: its route sees the few steps that an update has left, and ends the turn.
        as_node = "discover" if wants_skills([*messages, *update["messages"]]) else "load"
        self.graph.update_own_state(config, update, as_node=as_node)

    def _add(self, writes: Sequence[tuple[str, Any]]) -> None:
        for name, write in writes:
            channel = self.graph.channels.get(name)
            if isinstance(channel, BinaryOperatorAggregate | DeltaChannel):  # One without a reducer stays.
                held = channel.from_checkpoint(self.values.get(name))
                held.update([write])
                self.values[name] = held.get()
                self.changed.add(name)

    def _whole_checkpoint(self) -> Checkpoint:
        """Return the checkpoint of the step so that it depends on no earlier one: with all of the messages.

        A delta channel takes its plain value, too: LangGraph reads so what is older than the channel.
        """
        checkpoint = copy_checkpoint(self.stored.checkpoint)
        versions = checkpoint["channel_versions"]
        newest = max(versions.values())
        for name in self.graph.channels.keys() & self.values.keys():
            is_delta = isinstance(self.graph.channels[name], DeltaChannel) and name in versions
            if is_delta or name in self.changed:
                checkpoint["channel_values"][name] = self.values[name]
                versions.setdefault(name, newest)
        return checkpoint

    def _results(self, task: PregelTask) -> list[tuple[str, Any]]:
        return [write for write in self.writes[task.id] if write[0] not in WRITES_IDX_MAP]


def _unannounced(verdicts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return verdicts for a copy of the thread, of which the journal has no entries."""
    return {
        call_id: {name: value for name, value in verdict.items() if name != "announced"}
        for call_id, verdict in verdicts.items()
    }
