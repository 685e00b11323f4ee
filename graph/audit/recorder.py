"""Tells what the nodes do: to the audit's files, and to whoever follows a run's `custom` stream."""

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, ClassVar, Final, NamedTuple, cast

from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.runtime import RunControl, Runtime, get_runtime
from langgraph.types import StateSnapshot, StateUpdate

from skills_agent.graph.audit.events import (
    Asked,
    State,
    Step,
    approvals_asked,
    call_started,
    events_of,
    merged,
    outcome_answered,
    outcome_asked,
    run_resumed,
    turn_of,
    updated,
)
from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.audit.records import Envelope, Event, EventsLost, Operator, RunFailed, ThreadForked
from skills_agent.graph.audit.redaction import Redaction
from skills_agent.nodes.two_paths import TwoPaths
from skills_agent.skills.errors import SkillError
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
"""Events that wait for the disk: before an effect, and where a run stops; each takes all before it along.

So does the end of a run that had effects.
"""

REMEMBERED: Final = 10_000
"""Calls of the graph that are kept in mind, those under way among them."""

Record = dict[str, Any]
Node = Callable[..., Any] | TwoPaths


class AuditError(SkillError):
    """The audit cannot be written, and the operator wants no run without one."""

    code: ClassVar[str] = "audit-unwritable"

    def __init__(self, folder: str, cause: str) -> None:
        self.folder = folder
        self.cause = cause
        super().__init__(
            f"Stopped: the record of this run cannot be written to {folder} ({cause}). Make room or make the "
            "folder writable, or name another one in the setting audit_folder, and resume."
        )


class _Place(NamedTuple):
    """Where a step is."""

    thread: str
    node: str
    checkpoint: str
    task: str
    call: RunControl | None
    """Stands for one call of the graph: every invoke or stream has its own."""


@dataclass
class _Call:
    """What one call of the graph has told so far."""

    control: RunControl | None = None
    """Kept, so that no later call gets its address."""
    runs: set[str] = field(default_factory=set)
    effects: set[str] = field(default_factory=set)
    """Runs in which a call has started that does more than read."""
    threads: dict[str, str] = field(default_factory=dict)
    """Made-up names of threads, where the graph runs without one."""


class Audit:
    """Keeps the record of every run of one graph."""

    def __init__(
        self,
        log: RunLog | None,
        redaction: Redaction,
        operator: Operator,
        *,
        required: bool = False,
    ) -> None:
        """Take where to write (None: nowhere, events are only streamed), and what hides secrets.

        `required`: a run stops where it cannot be recorded, before its next effect.
        """
        self._log = log
        self._redaction = redaction
        self._operator = operator
        self._required = required
        self._calls: OrderedDict[int, _Call] = OrderedDict()
        self._lock = Lock()
        self._going_on = Lock()
        self._lost = 0

    def begin(self, node: str, before: State, runtime: Runtime[Context]) -> list[Record]:
        """Tell that a run goes on, before the first step that does."""
        place = self._place(node, runtime)
        run = _run(place, turn_of(node, before, {}))
        with self._going_on:  # No branch of the step tells anything before it is told that the run goes on.
            if not self._is_new(place, run):
                return []
            told = self._tell(place, run, [run_resumed(self._asked(runtime))], before_effects=True)
            self._remember(place, run)
            return told

    def goes_on(self, node: str, before: State, runtime: Runtime[Context]) -> bool:
        """Tell at once whether `begin` has something to tell: a run goes on in another call of the graph."""
        if node == "discover":
            return False
        place = self._place(node, runtime)
        return self._is_new(place, _run(place, turn_of(node, before, {})))

    def starts(self, request: CallRequest) -> None:
        """Tell that a call is about to run; `act` knows when, after it has looked into the journal."""
        self._tell_of_call(request, call_started(request), get_runtime(Context))

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Tell what a person said about a call whose outcome is unknown."""
        runtime = get_runtime(Context)
        event = outcome_answered(request, question, self._asked(runtime), again=again, message=message)
        self._tell_of_call(request, event, runtime)

    def _tell_of_call(self, request: CallRequest, event: Event, runtime: Runtime[Context]) -> None:
        place = self._place("act", runtime)
        run = _run(place, turn_of("act", cast("State", request), {}))
        _stream(runtime, self._tell(place, run, [event], before_effects=True))

    def forked(self, thread: str, event: ThreadForked, turn: int) -> None:
        """Tell that a thread was made as a copy of another one, in that turn."""
        place = _Place(thread, "", event["at"], "", None)
        self._tell(place, _run(place, turn), [event], before_effects=False)

    def updated(self, thread: str, made: StateSnapshot, updates: Sequence[StateUpdate]) -> None:
        """Tell what was changed in a thread from outside of the graph; `made` is what came of it."""
        before = (made.parent_config or {}).get("configurable", {}).get("checkpoint_id", "")
        # No step did it: the checkpoint that was made tells one change from the next.
        change = made.config["configurable"].get("checkpoint_id", "")
        place = _Place(thread, "", before, change, None)
        events = [event for each in updates for event in updated(each.values, each.as_node)]
        self._tell(place, _run(place, turn_of("", made.values, {})), events, before_effects=False)

    def ended(
        self, node: str, before: State, change: Any, seconds: float, runtime: Runtime[Context]
    ) -> list[Record]:
        """Tell what a step did."""
        place = self._place(node, runtime)
        update = merged(change)
        run = _run(place, turn_of(node, before, update))
        asking = partial(self._asked, runtime)
        events = events_of(node, Step(before, update, round(seconds, 4), asking))
        told = self._tell(place, run, events, before_effects=node not in AFTER_EFFECTS)
        if node == "discover":
            self._remember(place, run)
            if all(record["type"] != "run_started" for record in told):
                # Its beginning is in the file already: it was cut off before it was stored.
                told += self._tell(place, run, [run_resumed(asking())], before_effects=True)
        return told

    def interrupted(
        self, node: str, before: State, asked: GraphInterrupt, runtime: Runtime[Context]
    ) -> list[Record]:
        """Tell what a person is asked."""
        place = self._place(node, runtime)
        run = _run(place, turn_of(node, before, {}))
        if node != "act":
            return self._tell(place, run, approvals_asked(before), before_effects=True)
        events = [outcome_asked(cast("CallRequest", before), text) for text in _questions(asked)]
        return self._tell(place, run, events, before_effects=True)

    def failed(self, node: str, before: State, error: Exception, runtime: Runtime[Context]) -> list[Record]:
        """Tell that a step raised an error."""
        place = self._place(node, runtime)
        turn = 1 + turn_of("", before, {}) if node == "discover" else turn_of(node, before, {})
        event = RunFailed(type="run_failed", error=type(error).__name__, message=str(error))
        return self._tell(place, _run(place, turn), [event], before_effects=False)

    def _tell(
        self, place: _Place, run: str, events: Sequence[Event], *, before_effects: bool
    ) -> list[Record]:
        """Write events, and return those that are news."""
        if not events:
            return []
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        envelope = Envelope(
            time=now, thread=place.thread, run=run, node=place.node, checkpoint=place.checkpoint,
            task=place.task,
        )  # fmt: skip
        drafts = [
            {**self._redaction.fields(cast("Mapping[str, Any]", event), MAX_TEXT), **envelope}
            for event in events
        ]
        if self._log is None:
            return drafts
        try:
            return self._write(self._log, place, envelope, drafts)
        except OSError as error:
            cause = error.strerror or str(error)
            if self._required and before_effects:
                raise AuditError(str(self._log.folder), cause) from error
            if not self._lost:
                logger.error(  # noqa: TRY400 - the cause is a disk, not a bug
                    "audit cannot be written: runs go on without a record",
                    extra={"folder": str(self._log.folder), "cause": cause},
                )
            self._lost += len(drafts)
            return drafts

    def _write(self, log: RunLog, place: _Place, envelope: Envelope, drafts: list[Record]) -> list[Record]:
        """Append to the file; after a time without one, say how much is missing."""
        lost = self._lost
        gap = EventsLost(type="events_lost", lost=lost, cause="the file could not be written")
        sync = self._waits(place, envelope["run"], {each["type"] for each in drafts})
        drafts = [{**gap, **envelope}, *drafts] if lost else drafts
        told = log.append(place.thread, drafts, now=envelope["time"], sync=sync)
        if lost:
            self._lost = 0
            logger.warning("audit can be written again", extra={"lost": lost})
        return told

    def _waits(self, place: _Place, run: str, kinds: Set[str]) -> bool:
        """Tell whether events of these types are to be on the disk before the run goes on."""
        with self._lock:
            effects = self._of_call(place.call).effects
            if "call_started" in kinds:
                effects.add(run)
            return not SYNCED.isdisjoint(kinds) or ("run_ended" in kinds and run in effects)

    def _place(self, node: str, runtime: Runtime[Context]) -> _Place:
        info = runtime.execution_info
        checkpoint, task, thread, nested = "", "", None, ""
        if info is not None:
            checkpoint, task, thread = info.checkpoint_id, info.task_id, info.thread_id
            # The graph inside another one: every call of it has a namespace, and counts turns of its own.
            nested = info.checkpoint_ns.rpartition("|")[0]
        if thread is None:
            checkpoint = ""
            thread = self._made_up(nested, runtime.control)
        return _Place(f"{thread}/{nested}" if nested else thread, node, checkpoint, task, runtime.control)

    def _made_up(self, nested: str, call: RunControl | None) -> str:
        with self._lock:
            threads = self._of_call(call).threads
            return threads.setdefault(nested, f"run-{secrets.token_hex(6)}")

    def _is_new(self, place: _Place, run: str) -> bool:
        """Tell whether a call of the graph has not told of a run yet."""
        with self._lock:
            return run not in self._of_call(place.call).runs

    def _remember(self, place: _Place, run: str) -> None:
        with self._lock:
            self._of_call(place.call).runs.add(run)

    def _of_call(self, call: RunControl | None) -> _Call:
        if id(call) not in self._calls:
            self._calls[id(call)] = _Call(call)
            if len(self._calls) > REMEMBERED:
                self._calls.popitem(last=False)
        return self._calls[id(call)]

    def _asked(self, runtime: Runtime[Context]) -> Asked:
        chosen = Context.of(runtime.context).model
        operator = Operator(**{**self._operator, "model": chosen}) if chosen else self._operator
        verified = bool(runtime.server_info and runtime.server_info.user)
        return Asked(caller_of(runtime), verified, operator)


def _run(place: _Place, turn: int) -> str:
    return f"{place.thread}.{turn}"


def recorded(name: str, node: Node, audit: Audit) -> Node:
    """Return a node that does what `node` does and tells the audit.

    What is a plain function stays one; what has an async path waits for the disk in a thread there.
    Interrupts and errors pass through, after they were told.
    """
    return _two_paths(name, node, audit) if isinstance(node, TwoPaths) else _plain(name, node, audit)


def _plain(name: str, node: Callable[..., Any], audit: Audit) -> Callable[..., Any]:
    def run(state: Any, runtime: Runtime[Context]) -> Any:
        return _watched(name, partial(node, state, runtime), state, runtime, audit)

    return run


def _two_paths(name: str, node: TwoPaths, audit: Audit) -> TwoPaths:
    def sync_path(state: Any) -> Any:
        return _watched(name, partial(node.path, state), state, get_runtime(Context), audit)

    async def async_path(state: Any) -> Any:
        runtime = get_runtime(Context)
        if audit.goes_on(name, state, runtime):
            _stream(runtime, await asyncio.to_thread(audit.begin, name, state, runtime))
        begin = time.perf_counter()
        try:
            change = await node.async_path(state)
        except GraphInterrupt as asked:
            _stream(runtime, await asyncio.to_thread(audit.interrupted, name, state, asked, runtime))
            raise
        except (GraphBubbleUp, AuditError):
            raise
        except Exception as error:
            _stream(runtime, await asyncio.to_thread(audit.failed, name, state, error, runtime))
            raise
        seconds = time.perf_counter() - begin
        _stream(runtime, await asyncio.to_thread(audit.ended, name, state, change, seconds, runtime))
        return change

    return TwoPaths(name, sync_path, async_path)


def _watched(name: str, run: Callable[[], Any], state: Any, runtime: Runtime[Context], audit: Audit) -> Any:
    if audit.goes_on(name, state, runtime):
        _stream(runtime, audit.begin(name, state, runtime))
    begin = time.perf_counter()
    try:
        change = run()
    except GraphInterrupt as asked:
        _stream(runtime, audit.interrupted(name, state, asked, runtime))
        raise
    except (GraphBubbleUp, AuditError):
        raise
    except Exception as error:
        _stream(runtime, audit.failed(name, state, error, runtime))
        raise
    _stream(runtime, audit.ended(name, state, change, time.perf_counter() - begin, runtime))
    return change


def _questions(asked: GraphInterrupt) -> list[str]:
    """Return what a call asks a person: of the node itself, or of a host's tool in any shape."""
    values = [interrupt.value for interrupt in asked.args[0]]
    return [
        str(value["action_requests"][0]["description"])
        if isinstance(value, Mapping) and value.get("action_requests")
        else str(value)
        for value in values
    ]


def _stream(runtime: Runtime[Context], records: Sequence[Record]) -> None:
    """Hand events to whoever follows the `custom` stream; nobody does, most of the time."""
    for record in records:
        runtime.stream_writer({**record, "type": PREFIX + record["type"]})
