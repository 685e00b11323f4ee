"""Records what the nodes do: in the audit's files, and on the `custom` stream of an invocation."""

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from threading import RLock
from typing import Any, Final

from langchain_core.messages.tool import ToolCall
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import StateSnapshot, StateUpdate

from skills_agent.graph.audit import node_events
from skills_agent.graph.audit.events import Record, event
from skills_agent.graph.audit.log import AuditError, RunLog
from skills_agent.graph.audit.node_events import NodeStep, State, call_record, turn_of
from skills_agent.graph.audit.redaction import Redaction
from skills_agent.graph.langgraph_inside import asked_again, state_now
from skills_agent.nodes.effects import INVOCATION_KEY, Witness
from skills_agent.nodes.two_paths import RecordedSteps, Steps
from skills_agent.skills.policy.verdict import AnswerRefusedError
from skills_agent.state.context import Context, caller_of
from skills_agent.state.schema import CallRequest

logger = logging.getLogger(__name__)

PREFIX: Final = "skills_agent."
"""Of `type` in the `custom` stream, where other parts of a program send theirs."""

MAX_TEXT: Final = 2_000
"""Characters of one text in an event."""

MAX_FIELD: Final = 200_000
"""Characters of the JSON of one field. More fields of that size than an event has fit into a line."""

AFTER_EFFECTS: Final = frozenset({"act", "answer"})
"""Nodes whose results are not thrown away where the audit cannot be written any more."""

SYNCED: Final = frozenset({"approval_asked", "call_started", "run_failed", "run_ended"})
"""Events that wait for the disk: before an effect, and where a run stops; all before them go along."""

MAX_INVOCATIONS: Final = 10_000
"""Invocations that are remembered, with what they run; those under way are among them."""

Node = Callable[..., Any]


class Audit:
    """Keeps the record of every run of one graph."""

    def __init__(
        self,
        log: RunLog | None,
        redaction: Redaction,
        operator: Mapping[str, Any],
        *,
        required: bool = False,
    ) -> None:
        """Record into `log` (None: nowhere, events are only streamed), without secrets.

        `required`: a run stops where it cannot be recorded, before its next effect.
        """
        self._log = log
        self.redaction = redaction
        self._operator = operator
        self._required = required
        # Of which runs each invocation has recorded something.
        self._begun: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = RLock()
        self._lost = 0

    @contextmanager
    def watch(self, node: str, before: State, runtime: Runtime[Context]) -> Iterator[list[Any]]:
        """Record one run of a node, which appends what it returned to the list.

        Interrupts and errors pass through after they were recorded; of a node that appends nothing no end is.
        Where an answer was refused, the question is put again, so that the thread stays interrupted.
        """
        # A `Send` brings `act` its call alone.
        turn = turn_of(node, state_now() if node in {"act", "fork"} else before)
        tell = partial(self._tell, node, turn, runtime)
        if node != "discover":
            self._resume(node, turn, runtime)
        changes, start = list[Any](), time.perf_counter()
        try:
            yield changes
        except GraphInterrupt as interrupt:
            if node != "fork":  # The node in it that asks has told.
                tell(node_events.questions_asked(node, before, interrupt))
            raise
        except (GraphBubbleUp, AuditError):
            raise
        except AnswerRefusedError as error:
            tell([event("answer_refused", fault=error.fault)], after_effects=True)
            raise asked_again(error.question, error.answer_schema) from error
        except Exception as error:
            tell([event("run_failed", error=type(error).__name__, message=str(error))], after_effects=True)
            raise
        if not changes:
            return
        seconds, update = round(time.perf_counter() - start, 4), node_events.merge_updates(changes[0])
        step = NodeStep(before, update, seconds, partial(self._resumed, runtime))
        tell(node_events.events_of(node, step), after_effects=node in AFTER_EFFECTS)

    def _resume(self, node: str, turn: int, runtime: Runtime[Context]) -> None:
        with self._lock:  # No branch of the step records anything before the run is said to go on.
            if (_invocation(), _locate(node, turn, runtime)["run"]) not in self._begun:
                self._tell(node, turn, runtime, [self._resumed(runtime)])

    def starts(self, request: CallRequest, *, is_lasting: bool) -> None:
        """Record that a call is about to run; `act` knows when, after it has looked into the journal."""
        digest = request["approved"] if is_lasting else ""
        self._tell_of_call(event("call_started", call_record(request), digest=digest))

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Record what a person said about a call whose outcome is unknown."""
        said = event(
            "approval_answered",
            call_record(request),
            answer="approve" if again else "reject",
            scope="call",
            message=message,
            user=caller_of(get_runtime(Context)),
            decision="allow" if again else "deny",
            # The question names the attempt: the same answer about the next attempt is another event.
            reason=f"{'run again' if again else 'not run again'}: {question}",
            by="approval",
        )
        self._tell_of_call(said)

    def doubted(self, call: ToolCall, reason: str) -> None:
        """Record that something was not believed that a client can write."""
        named = {"call_id": call["id"] or "", "tool": call["name"], "args": call["args"]}
        self._tell_of_call(event("call_doubted", named, reason=reason))

    def _tell_of_call(self, happened: Record) -> None:
        self._tell("act", turn_of("act", state_now()), get_runtime(Context), [happened])

    def withdrawn(self, state: State, message_id: str, reason: str, wait: float | None) -> None:
        """Record that a model's reply broke off, and that what was shown of it does not count."""
        more = {} if wait is None else {"wait": wait}
        self.tell(event("reply_withdrawn", more, message_id=message_id, reason=reason), state)

    def tell(self, happened: Record, state: State) -> None:
        """Record an event of the calling node, which works on that state."""
        node = str(get_config()["metadata"]["langgraph_node"])
        self._tell(node, turn_of(node, state), get_runtime(Context), [happened])

    def awaits(self, model: str) -> Callable[[int], None]:
        """Return what tells clients that the calling node still waits for a model."""
        node, writer = str(get_config()["metadata"]["langgraph_node"]), get_runtime(Context).stream_writer
        return lambda seconds: self.stream(
            event("model_awaited", model=model, waiting_seconds=seconds), writer, node
        )

    def stream(self, happened: Record, writer: Callable[[Any], object], node: str = "act") -> None:
        """Tell clients something that the record does not keep."""
        writer(_told({**self._redacted(happened), "node": node}))

    def afterwards(self, state: State) -> Callable[[Record], Record]:
        """Return what records an event of the calling step, also when that has ended, for clients to read."""
        envelope = _locate("act", turn_of("act", state), get_runtime(Context))

        def record(happened: Record) -> Record:
            return _told(self._record({**envelope, "time": _now()}, [happened], after_effects=True)[-1])

        return record

    def witness(self, thread: str, namespace: str) -> Witness:
        """Return what the record of a thread says of the calls that began: nothing, where there is none."""
        if self._log is None:
            return Witness()
        try:
            return node_events.witness_of(*self._log.records(_named(thread, namespace)))
        except OSError as error:
            logger.warning("audit cannot be read", extra={"cause": error.strerror or str(error)})
            return Witness()

    def record_outside(self, thread: str, event: Record, turn: int) -> None:
        """Record what happened to a thread from outside of the graph: that it is a copy, say, `at` a step."""
        self._record(_envelope(thread, turn, checkpoint=event.get("at", "")), [event], after_effects=True)

    def record_update(self, thread: str, snapshot: StateSnapshot, updates: Sequence[StateUpdate]) -> None:
        """Record what was changed in a thread from outside of the graph; `snapshot` is the state after it."""
        before = (snapshot.parent_config or {}).get("configurable", {}).get("checkpoint_id", "")
        # No step did it: the checkpoint that was made tells one change from the next.
        change = snapshot.config["configurable"].get("checkpoint_id", "")
        envelope = _envelope(thread, turn_of("", snapshot.values), checkpoint=before, task=change)
        events = [
            one for update in updates for one in node_events.state_updated(update.values, update.as_node)
        ]
        self._record(envelope, events, after_effects=True)

    def _tell(
        self, node: str, turn: int, runtime: Runtime[Context], events: Sequence[Record], **options: bool
    ) -> None:
        envelope = _locate(node, turn, runtime)
        for record in self._record(envelope, events, **options):
            runtime.stream_writer(_told(record))
        with self._lock:
            self._begun[_invocation(), envelope["run"]] = None
            if len(self._begun) > MAX_INVOCATIONS:
                self._begun.popitem(last=False)

    def _record(
        self, envelope: Mapping[str, str], events: Sequence[Record], *, after_effects: bool = False
    ) -> Sequence[Record]:
        """Write events, and return their records; after a time without a file, say how much is missing."""
        drafts = [{**self._redacted(each), **envelope} for each in events]
        if self._log is None or not events:
            return drafts
        lost, written = self._lost, drafts
        if lost:
            gap = event("events_lost", lost=lost, cause="the file could not be written")
            written = [{**gap, **envelope}, *drafts]
        try:
            sync = not SYNCED.isdisjoint(draft["type"] for draft in drafts)
            records = self._log.append(envelope["thread"], written, sync=sync)
        except OSError as error:
            failure = AuditError(str(self._log.folder), error.strerror or str(error))
            if self._required and not after_effects:
                raise failure from error
            if not lost:
                facts = {"folder": failure.folder, "cause": failure.cause}
                text = "audit cannot be written: runs go on without a record"
                logger.error(text, extra=facts)  # noqa: TRY400 - a person reads it: no traceback
            self._lost += len(drafts)
            return drafts
        if lost:
            self._lost = 0
            logger.warning("audit can be written again", extra={"lost": lost})
        return records

    def _redacted(self, happened: Record) -> Record:
        # The names of its fields are our own.
        redacted = self.redaction.fields(happened, MAX_TEXT)
        return {name: _bounded(value) for name, value in redacted.items()}

    def _resumed(self, runtime: Runtime[Context]) -> Record:
        chosen = Context.of(runtime.context).model
        operator = {**self._operator, "model": chosen} if chosen else self._operator
        verified = bool(runtime.server_info and runtime.server_info.user)
        return event("run_resumed", operator, caller=caller_of(runtime), verified=verified)


def _bounded(value: Any) -> Any:
    """Return a value that was redacted, or how large it is: many texts in it may add up to any size."""
    if not value or not isinstance(value, dict | list) or (size := len(json.dumps(value))) <= MAX_FIELD:
        return value
    text = f"[{size:,} characters of JSON]"
    return {"...": text} if isinstance(value, dict) else [text]


def _told(record: Record) -> Record:
    return {**record, "type": PREFIX + record["type"]}


def _locate(node: str, turn: int, runtime: Runtime[Context]) -> dict[str, str]:
    """Return what the events of a step have in common."""
    info = runtime.execution_info
    # Every call of a graph inside another one has a namespace, and counts turns of its own.
    nested = info.checkpoint_ns.rpartition("|")[0] if info else ""
    thread, checkpoint = (info.thread_id, info.checkpoint_id) if info else (None, "")
    if thread is None:
        thread, checkpoint = f"run-{_invocation()}", ""
    return _envelope(_named(thread, nested), turn, node, checkpoint, info.task_id if info else "")


def _invocation() -> str:
    """Return the id of the invocation that the calling node runs for."""
    return str(get_config()["configurable"][INVOCATION_KEY])


def _named(thread: str, namespace: str) -> str:
    return f"{thread}/{namespace}" if namespace else thread


def _envelope(thread: str, turn: int, node: str = "", checkpoint: str = "", task: str = "") -> dict[str, str]:
    return {
        "time": _now(),
        "thread": thread,
        "run": f"{thread}.{turn}",
        "node": node,
        "checkpoint": checkpoint,
        "task": task,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record_node(name: str, node: Node, audit: Audit) -> Node:
    """Return a node that does what `node` does, and that the audit records."""

    def run(state: Any, runtime: Runtime[Context]) -> Any:
        with audit.watch(name, state, runtime) as changes:
            changes.append(node(state, runtime))
        return changes[0]

    return run


def record_steps(name: str, node: Callable[..., Steps[Any]], audit: Audit) -> RecordedSteps:
    """Return the steps of a node that waits, recorded in the thread that takes them: no hand-off more.

    What the caller has left is not recorded as done: LangGraph keeps nothing of it.
    """

    def steps(state: Any, runtime: Runtime[Context], is_left: Callable[[], bool]) -> Steps[Any]:
        with audit.watch(name, state, runtime) as changes:
            update = yield from node(state, runtime)
            if not is_left():
                changes.append(update)
        return update

    return steps
