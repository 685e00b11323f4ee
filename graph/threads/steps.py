"""The steps of a thread: which nodes ran, and what each changed.

Read from what the nodes wrote, in one pass. LangGraph's `get_state_history` gives whole states instead, and
builds each of them anew: for a thread of 500 turns that takes minutes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage, convert_to_messages
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from skills_agent.graph.langgraph_inside import SENDS
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import config_of
from skills_agent.graph.threads.errors import UnknownStepError
from skills_agent.state.records import GrantRecord, LoadedSkill, PlanRecord, UsageRecord, VerdictRecord
from skills_agent.state.reducers import add_usage
from skills_agent.state.transcript import calls_of

FORKED_FROM = "skills_agent_forked_from"
"""Key of the checkpoint metadata that says where a fork came from: `THREAD@STEP`."""


class Changed(NamedTuple):
    """What one step changed."""

    messages: tuple[AnyMessage, ...] = ()
    """Added ones."""
    removed: int = 0
    """Messages that went."""
    loaded: tuple[str, ...] = ()
    unloaded: tuple[str, ...] = ()
    grants: tuple[GrantRecord, ...] = ()
    verdicts: Mapping[str, VerdictRecord] = {}
    """New or different ones, by tool call id."""
    plan: PlanRecord | None = None
    usage: UsageRecord | None = None
    """What the step added; the turn that it counts for."""

    def as_json(self) -> dict[str, Any]:
        """Return what changed, without what did not."""
        told = {**self._asdict(), "messages": [_message(each) for each in self.messages]}
        return {name: value for name, value in told.items() if value}


class Step(NamedTuple):
    """One checkpoint, and what led to it."""

    number: int
    """LangGraph's `metadata.step`: stable, also after older ones were pruned."""
    checkpoint: str
    when: str
    """ISO 8601, UTC."""
    nodes: tuple[str, ...]
    """That ran since the step before; `input`, `update` or `fork` where none did."""
    next: tuple[str, ...]
    """Nodes that run now."""
    changed: Changed
    origin: str = ""
    """Of a fork: the thread and the step that it was made from, as `THREAD@STEP`."""

    def as_json(self) -> dict[str, Any]:
        """Return the step for a machine."""
        return {**self._asdict(), "changed": self.changed.as_json()}


def read_steps(graph: CompiledAgent, thread: str) -> list[Step]:
    """Return the steps that led to where a thread is, oldest first.

    Branches that were left behind (LangGraph's own time travel makes them) are not among them.
    """
    chain = read_chain(graph, thread)
    steps: list[Step] = []
    seen = _Seen()
    seen.begin(graph.get_state(chain[0].config).values)
    for before, found in zip([None, *chain], chain, strict=False):
        source = str(found.metadata.get("source"))
        # Input drops what the nodes of the step before had written and nobody had taken up.
        writes = [] if before is None or source == "input" else _writes(before)
        changed = seen.changes(writes)
        if source == "input":
            continue
        ran = _next(before, graph) if before is not None and source == "loop" else (source,)
        steps.append(
            Step(
                number=found.metadata.get("step", 0),
                checkpoint=found.checkpoint["id"],
                when=found.checkpoint["ts"],
                nodes=tuple("input" if name == "__start__" else name for name in ran),
                next=_next(found, graph),
                changed=changed,
                origin=str(dict(found.metadata).get(FORKED_FROM, "")),
            )
        )
    return steps


def find_step(graph: CompiledAgent, thread: str, at: str) -> Step:
    """Return a step by its number or by the id of its checkpoint; raises UnknownStepError."""
    steps = read_steps(graph, thread)
    for step in steps:
        if at in (str(step.number), step.checkpoint):
            return step
    raise UnknownStepError(thread, at, [step.number for step in steps])


def read_chain(graph: CompiledAgent, thread: str) -> list[CheckpointTuple]:
    """Return the newest checkpoint of a thread after all that it was built on, oldest first."""
    saver = graph.checkpointer
    assert isinstance(saver, BaseCheckpointSaver)  # noqa: S101 - Threads takes no other
    config = config_of(thread)
    config["configurable"]["checkpoint_ns"] = ""
    found = {each.checkpoint["id"]: each for each in saver.list(config)}
    head = saver.get_tuple(config)
    chain: list[CheckpointTuple] = []
    while head is not None:
        chain.append(head)
        parent = head.parent_config
        head = found.get(parent["configurable"]["checkpoint_id"]) if parent else None
    return chain[::-1]


def _next(found: CheckpointTuple, graph: CompiledAgent) -> tuple[str, ...]:
    """Return the nodes that run at a checkpoint: one a `Send`, then those whose trigger was written."""
    values = found.checkpoint["channel_values"]
    sent = [send.node for send in values.get(SENDS) or []]
    triggered = [
        name for name, node in graph.nodes.items() if any(trigger in values for trigger in node.triggers)
    ]
    return (*sent, *triggered)


def _writes(found: CheckpointTuple) -> list[tuple[str, Any]]:
    return [
        (channel, value.value if isinstance(value, Overwrite) else value)
        for _, channel, value in found.pending_writes or []
    ]


class _Seen:
    """What the steps so far wrote, as far as it takes to tell what is new."""

    def __init__(self) -> None:
        self.messages: set[str] = set()
        self.verdicts: Mapping[str, VerdictRecord] = {}

    def begin(self, values: Mapping[str, Any]) -> None:
        """Take the state of the oldest step: what it holds was not changed by a step that is known."""
        self.messages = {message.id for message in values.get("messages") or []}
        self.verdicts = values.get("verdicts") or {}

    def changes(self, writes: Sequence[tuple[str, Any]]) -> Changed:
        """Return what one step's writes change, and remember them."""
        messages, removed = self._transcript(_values(writes, "messages"))
        ledger: list[LoadedSkill] = [
            skill for write in _values(writes, "skills_loaded") for skill in (write or {}).values()
        ]
        usage: UsageRecord | None = None
        for write in _values(writes, "usage"):
            usage = add_usage(usage, write)
        return Changed(
            messages=tuple(messages),
            removed=removed,
            loaded=tuple(skill["name"] for skill in ledger if not skill["unloaded"]),
            unloaded=tuple(skill["name"] for skill in ledger if skill["unloaded"]),
            grants=tuple(grant for write in _values(writes, "grants") for grant in (write or {}).values()),
            verdicts=self._judged(_values(writes, "verdicts")),
            plan=next(reversed(list(_values(writes, "plan"))), None),
            usage=usage if usage and any(usage["thread"].values()) else None,
        )

    def _transcript(self, writes: Iterable[Any]) -> tuple[list[AnyMessage], int]:
        """Return the messages that came, and how many went. A rewritten transcript has its old ids."""
        before = set(self.messages)
        added: list[AnyMessage] = []
        for write in writes:
            for message in convert_to_messages(write if isinstance(write, list) else [write]):
                if message.id == REMOVE_ALL_MESSAGES:
                    self.messages.clear()
                elif message.type == "remove":
                    self.messages.discard(message.id or "")
                else:
                    if message.id not in before:
                        added.append(cast("AnyMessage", message))
                    self.messages.add(message.id or "")
        return added, len(before - self.messages)

    def _judged(self, writes: Iterable[Mapping[str, VerdictRecord]]) -> dict[str, VerdictRecord]:
        new: dict[str, VerdictRecord] = {}
        for write in writes:
            new |= {call: verdict for call, verdict in write.items() if self.verdicts.get(call) != verdict}
            self.verdicts = write
        return new


def _values(writes: Sequence[tuple[str, Any]], channel: str) -> Iterator[Any]:
    return (value for name, value in writes if name == channel)


def _message(message: BaseMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"id": message.id, "type": message.type, "text": str(message.text)}
    if isinstance(message, AIMessage) and message.tool_calls:
        told["calls"] = [
            {"id": call["id"], "tool": call["name"], "args": call["args"]} for call in calls_of(message)
        ]
    if isinstance(message, ToolMessage):
        told |= {"call": message.tool_call_id, "tool": message.name, "status": message.status}
    return told
