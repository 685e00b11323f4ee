"""Records what the nodes do: in the audit's files, and on the `custom` stream of an invocation."""

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple, cast

import msgspec
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.runtime import RunControl, Runtime, get_runtime
from langgraph.types import StateSnapshot, StateUpdate

from skills_agent.graph.audit import node_events
from skills_agent.graph.audit.events import (
    Event,
    EventsLost,
    Operator,
    RunFailed,
    RunResumed,
    ThreadForked,
)
from skills_agent.graph.audit.log import AuditError, Record, RunLog
from skills_agent.graph.audit.node_events import NodeStep, State, turn_of
from skills_agent.graph.audit.redaction import Redaction
from skills_agent.nodes.model_call import TwoPaths
from skills_agent.state.context import Context, caller_of
from skills_agent.state.schema import CallRequest

logger = logging.getLogger(__name__)

PREFIX: Final = "skills_agent."
"""Of `type` in the `custom` stream, where other parts of a program send theirs."""

MAX_TEXT: Final = 2_000
"""Characters of one text in an event."""

AFTER_EFFECTS: Final = frozenset({"act", "answer"})
"""Nodes whose results are not thrown away where the audit cannot be written any more."""

SYNCED: Final = frozenset({"approval_asked", "call_started", "run_failed"})
"""Events that wait for the disk: before an effect, and where a run stops; all before them go along.

So does the end of a run that had effects.
"""

MAX_INVOCATIONS: Final = 10_000
"""Invocations that are remembered, those under way among them."""

Node = Callable[..., Any] | TwoPaths


class _Location(NamedTuple):
    """Where an event belongs."""

    thread: str
    turn: int
    node: str
    checkpoint: str
    """Id of the checkpoint that the step started from."""
    task: str
    """LangGraph's id of the step: the same when it runs again after a crash."""
    control: RunControl | None = None
    """Stands for the invocation: every invoke or stream has a control of its own."""

    @property
    def run(self) -> str:
        """Return the id of the run: `THREAD.TURN`."""
        return f"{self.thread}.{self.turn}"

    def envelope(self) -> dict[str, str]:
        """Return what every event has beside its own fields."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "time": now,
            "thread": self.thread,
            "run": self.run,
            "node": self.node,
            "checkpoint": self.checkpoint,
            "task": self.task,
        }


@dataclass
class _Memory:
    """What one invocation has recorded so far."""

    runs: set[str] = field(default_factory=set)
    effects: set[str] = field(default_factory=set)
    """Runs in which a call has started that does more than read."""
    threads: dict[str, str] = field(default_factory=dict)
    """Made-up names of threads, where the graph runs without one."""


@dataclass
class _Result:
    """What a node returned."""

    change: Any = None


class Audit:
    """Keeps the record of every run of one graph."""

    def __init__(
        self, log: RunLog | None, redaction: Redaction, operator: Operator, *, required: bool = False
    ) -> None:
        """Record into `log` (None: nowhere, events are only streamed), without secrets.

        `required`: a run stops where it cannot be recorded, before its next effect.
        """
        self._log = log
        self._redaction = redaction
        self._operator = operator
        self._required = required
        self._invocations: OrderedDict[RunControl | None, _Memory] = OrderedDict()
        self._lock = Lock()
        self._resuming = Lock()
        self._lost = 0

    @contextmanager
    def watch(self, node: str, before: State, runtime: Runtime[Context]) -> Iterator[_Result]:
        """Record one run of a node, which puts what it returned into the result.

        Interrupts and errors pass through after they were recorded.
        """
        if self.is_resumed(node, before, runtime):
            self._resume(node, before, runtime)
        result, start = _Result(), time.perf_counter()
        try:
            yield result
        except GraphInterrupt as interrupt:
            location = self._locate(node, turn_of(node, before, {}), runtime)
            self._tell(location, node_events.questions_asked(node, before, interrupt), runtime)
            raise
        except (GraphBubbleUp, AuditError):
            raise
        except Exception as error:
            turn = 1 + turn_of("", before, {}) if node == "discover" else turn_of(node, before, {})
            failure = RunFailed(error=type(error).__name__, message=str(error))
            self._tell(self._locate(node, turn, runtime), [failure], runtime, after_effects=True)
            raise
        seconds, update = round(time.perf_counter() - start, 4), node_events.merge_updates(result.change)
        location = self._locate(node, turn_of(node, before, update), runtime)
        step = NodeStep(before, update, seconds, partial(self._resumed, runtime))
        events = node_events.events_of(node, step)
        self._tell(location, events, runtime, after_effects=node in AFTER_EFFECTS)
        if node == "discover":
            self._remember(location)

    def is_resumed(self, node: str, before: State, runtime: Runtime[Context]) -> bool:
        """Return whether a run goes on in an invocation that has not recorded anything of it yet."""
        if node == "discover":
            return False
        location = self._locate(node, turn_of(node, before, {}), runtime)
        with self._lock:
            return location.run not in self._memory(location.control).runs

    def _resume(self, node: str, before: State, runtime: Runtime[Context]) -> None:
        location = self._locate(node, turn_of(node, before, {}), runtime)
        with self._resuming:  # No branch of the step records anything before the run is said to go on.
            if self.is_resumed(node, before, runtime):
                self._tell(location, [self._resumed(runtime)], runtime)
                self._remember(location)

    def starts(self, request: CallRequest) -> None:
        """Record that a call is about to run; `act` knows when, after it has looked into the journal."""
        self._record_call(request, node_events.call_started(request), get_runtime(Context))

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Record what a person said about a call whose outcome is unknown."""
        runtime = get_runtime(Context)
        user = caller_of(runtime)
        event = node_events.outcome_answered(request, question, user, again=again, message=message)
        self._record_call(request, event, runtime)

    def _record_call(self, request: CallRequest, event: Event, runtime: Runtime[Context]) -> None:
        turn = turn_of("act", cast("State", request), {})
        self._tell(self._locate("act", turn, runtime), [event], runtime)

    def record_fork(self, thread: str, event: ThreadForked, turn: int) -> None:
        """Record that a thread was made as a copy of another one, in that turn."""
        self._record(_Location(thread, turn, "", event.at, ""), [event], after_effects=True)

    def record_update(self, thread: str, snapshot: StateSnapshot, updates: Sequence[StateUpdate]) -> None:
        """Record what was changed in a thread from outside of the graph; `snapshot` is the state after it."""
        before = (snapshot.parent_config or {}).get("configurable", {}).get("checkpoint_id", "")
        # No step did it: the checkpoint that was made tells one change from the next.
        change = snapshot.config["configurable"].get("checkpoint_id", "")
        location = _Location(thread, turn_of("", snapshot.values, {}), "", before, change)
        events = [event for each in updates for event in node_events.state_updated(each.values, each.as_node)]
        self._record(location, events, after_effects=True)

    def _tell(
        self, location: _Location, events: Sequence[Event], runtime: Runtime[Context], **options: bool
    ) -> None:
        """Record events, and send them on the `custom` stream."""
        for record in self._record(location, events, **options):
            runtime.stream_writer({**record, "type": PREFIX + record["type"]})

    def _record(
        self, location: _Location, events: Sequence[Event], *, after_effects: bool = False
    ) -> Sequence[Record]:
        """Write events, and return their records; after a time without a file, say how much is missing."""
        if not events:
            return []
        envelope, lost = location.envelope(), self._lost
        drafts = [{**self._redaction.fields(event.as_record(), MAX_TEXT), **envelope} for event in events]
        if self._log is None:
            return drafts
        gap = EventsLost(lost=lost, cause="the file could not be written")
        gaps = [{**gap.as_record(), **envelope}] if lost else []
        try:
            records = self._log.append(location.thread, [*gaps, *drafts], sync=self._waits(location, drafts))
        except OSError as error:
            self._lose(self._log, error, len(drafts), after_effects=after_effects)
            return drafts
        if lost:
            self._lost = 0
            logger.warning("audit can be written again", extra={"lost": lost})
        return records

    def _lose(self, log: RunLog, error: OSError, number: int, *, after_effects: bool) -> None:
        """Stop the run where the record is required; else log the first of the events that are lost."""
        cause = error.strerror or str(error)
        if self._required and not after_effects:
            raise AuditError(str(log.folder), cause) from error
        if not self._lost:
            facts = {"folder": str(log.folder), "cause": cause}
            logger.error("audit cannot be written: runs go on without a record", extra=facts)
        self._lost += number

    def _waits(self, location: _Location, drafts: Sequence[Record]) -> bool:
        """Return whether events are to be on the disk before the run goes on."""
        kinds = {draft["type"] for draft in drafts}
        with self._lock:
            effects = self._memory(location.control).effects
            if "call_started" in kinds:
                effects.add(location.run)
            return not SYNCED.isdisjoint(kinds) or ("run_ended" in kinds and location.run in effects)

    def _locate(self, node: str, turn: int, runtime: Runtime[Context]) -> _Location:
        info = runtime.execution_info
        checkpoint, task, thread, nested = "", "", None, ""
        if info is not None:
            checkpoint, task, thread = info.checkpoint_id, info.task_id, info.thread_id
            # Every call of a graph inside another one has a namespace, and counts turns of its own.
            nested = info.checkpoint_ns.rpartition("|")[0]
        if thread is None:
            checkpoint = ""
            with self._lock:
                made_up = self._memory(runtime.control).threads
                thread = made_up.setdefault(nested, f"run-{secrets.token_hex(6)}")
        thread = f"{thread}/{nested}" if nested else thread
        return _Location(thread, turn, node, checkpoint, task, runtime.control)

    def _remember(self, location: _Location) -> None:
        with self._lock:
            self._memory(location.control).runs.add(location.run)

    def _memory(self, control: RunControl | None) -> _Memory:
        if control not in self._invocations:
            self._invocations[control] = _Memory()
            if len(self._invocations) > MAX_INVOCATIONS:
                self._invocations.popitem(last=False)
        return self._invocations[control]

    def _resumed(self, runtime: Runtime[Context]) -> RunResumed:
        """Return who calls the graph, and under which of the operator's settings."""
        operator = msgspec.structs.asdict(self._operator)
        if model := Context.of(runtime.context).model:
            operator["model"] = model
        verified = bool(runtime.server_info and runtime.server_info.user)
        return RunResumed(caller=caller_of(runtime), verified=verified, **operator)


def record_node(name: str, node: Node, audit: Audit) -> Node:
    """Return a node that does what `node` does, and that the audit records.

    A plain function stays one; a node with an async path waits for the disk in a thread there.
    """
    if isinstance(node, TwoPaths):
        return _two_paths(name, node, audit)

    def run(state: Any, runtime: Runtime[Context]) -> Any:
        with audit.watch(name, state, runtime) as result:
            result.change = node(state, runtime)
        return result.change

    return run


def _two_paths(name: str, node: TwoPaths, audit: Audit) -> TwoPaths:
    def sync_path(state: Any) -> Any:
        with audit.watch(name, state, get_runtime(Context)) as result:
            result.change = node.path(state)
        return result.change

    async def async_path(state: Any) -> Any:
        runtime = get_runtime(Context)
        watch = audit.watch(name, state, runtime)
        waits = audit.is_resumed(name, state, runtime)
        result = await asyncio.to_thread(watch.__enter__) if waits else watch.__enter__()
        try:
            result.change = await node.async_path(state)
        except Exception as error:
            await asyncio.to_thread(watch.__exit__, type(error), error, error.__traceback__)
            raise
        await asyncio.to_thread(watch.__exit__, None, None, None)
        return result.change

    return TwoPaths(name, sync_path, async_path)
