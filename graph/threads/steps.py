"""The steps of a thread, read in one pass from what its nodes wrote.

LangGraph's `get_state_history` builds the whole state of each anew: minutes for a thread of 500 turns.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph import START
from langgraph.types import Overwrite, Send

from skills_agent.graph.audit.events import Record
from skills_agent.graph.audit.node_events import NodeStep, events_of, state_updated
from skills_agent.graph.langgraph_inside import SENDS, UPDATE_TASK
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import config_of
from skills_agent.graph.threads.errors import ThreadError
from skills_agent.state.reducers import add_usage, flatten, merge_messages, merge_records
from skills_agent.state.transcript import shown_calls_of

FORKED_FROM = "skills_agent_forked_from"
"""Key of the checkpoint metadata that says where a fork came from: `THREAD@STEP`."""
_MERGES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "messages": lambda earlier, later: [*(earlier or []), *flatten(later)],
    "usage": add_usage,
    "grants": merge_records,
}
"""How the writes of one task become one, where it has several: two grants are revoked beside one step."""


class ThreadStep(NamedTuple):
    """One checkpoint, and what led to it."""

    number: int
    """LangGraph's `metadata.step`: stable, also after older ones were pruned."""
    checkpoint: str
    when: str
    """ISO 8601, UTC."""
    nodes: tuple[str, ...]
    """Nodes that ran since the step before; `input`, `update` or `fork` where none did."""
    next: tuple[str, ...]
    """Nodes that run now."""
    changed: Mapping[str, Any]
    """What differs from the step before, as JSON: messages that were added, how many were removed, a plan."""
    events: Sequence[Record] = ()
    """What happened, as the audit would record it; without times, and without who called."""
    origin: str = ""
    """Of a fork: the thread and the step that it was made from, as `THREAD@STEP`."""


def read_steps(graph: CompiledAgent, thread: str) -> list[ThreadStep]:
    """Return the steps that led to where a thread is, oldest first.

    Branches that were left behind (LangGraph's own time travel makes them) are not among them.
    """
    chain = _chain(graph, thread)
    # No known step changed what the oldest one holds.
    values = {"messages": [], **graph.get_state(chain[0].config).values}
    steps: list[ThreadStep] = []
    beside: list[tuple[str, NodeStep]] = []
    for before, checkpoint in zip([None, *chain], chain, strict=False):
        source = str(checkpoint.metadata.get("source"))
        tasks = [*beside, *(_tasks(before, graph, values, from_outside=source == "update") if before else ())]
        # An input drops what the nodes of the step before had written and nobody had taken up; what was
        # written beside them, it takes into the step that follows.
        beside = [task for task in tasks if task[0] == "update"] if source == "input" else []
        if source == "input":
            continue
        origin = str(dict(checkpoint.metadata).get(FORKED_FROM, ""))
        nodes = _next(before, graph) if before and source == "loop" else ("fork" if origin else source,)
        updates = [task.update for _, task in tasks]
        events = tuple(event for node, task in tasks for event in _events(node, task))
        messages_before, values = values["messages"], _applied(updates, values)
        step = ThreadStep(
            number=checkpoint.metadata.get("step", 0),
            checkpoint=checkpoint.checkpoint["id"],
            when=checkpoint.checkpoint["ts"],
            nodes=tuple("input" if name == START else name for name in nodes),
            next=_next(checkpoint, graph),
            changed=_changed(messages_before, values["messages"], updates),
            events=events,
            origin=origin,
        )
        steps.append(step)
    return steps


def find_step(graph: CompiledAgent, thread: str, at: str) -> ThreadStep:
    """Return a step by its number or by the id of its checkpoint; raises ThreadError."""
    for step in read_steps(graph, thread):
        if at in (str(step.number), step.checkpoint):
            return step
    text = f"Thread {thread} has no step {at!r}. To see them: skills-agent threads show {thread} --steps"
    raise ThreadError(text, code="unknown-step")


def _chain(graph: CompiledAgent, thread: str) -> list[CheckpointTuple]:
    saver = graph.saver_of(thread)
    config = config_of(thread)
    checkpoints = {each.checkpoint["id"]: each for each in saver.list(config)}
    head = saver.get_tuple(config)
    chain: list[CheckpointTuple] = []
    while head is not None:
        chain.append(head)
        parent = head.parent_config
        head = checkpoints.get(parent["configurable"]["checkpoint_id"]) if parent else None
    return chain[::-1]


def _sends(checkpoint: CheckpointTuple) -> list[Send]:
    return list(checkpoint.checkpoint["channel_values"].get(SENDS) or [])


def _triggered(checkpoint: CheckpointTuple, graph: CompiledAgent) -> list[str]:
    values = checkpoint.checkpoint["channel_values"]
    return [name for name, node in graph.nodes.items() if any(trigger in values for trigger in node.triggers)]


def _next(checkpoint: CheckpointTuple, graph: CompiledAgent) -> tuple[str, ...]:
    return (*(send.node for send in _sends(checkpoint)), *_triggered(checkpoint, graph))


def _tasks(
    checkpoint: CheckpointTuple, graph: CompiledAgent, values: Mapping[str, Any], *, from_outside: bool
) -> Iterator[tuple[str, NodeStep]]:
    """Yield each node with what it wrote at a checkpoint that has these values.

    `update` stands for a write from outside, and nothing where several nodes may have written this. Writes
    name no node: those of a `Send` are known by the call that they answer.
    """
    updates: dict[str, dict[str, Any]] = defaultdict(dict)
    for task, channel, value in checkpoint.pending_writes or []:
        if channel in graph.channels and not channel.startswith(("__", "branch:")):
            new, merge = value.value if isinstance(value, Overwrite) else value, _MERGES.get(channel)
            updates[task][channel] = merge(updates[task].get(channel), new) if merge else new
    sends = {_call_id(send.arg): send for send in _sends(checkpoint)}
    triggered = _triggered(checkpoint, graph)
    for task, update in updates.items():
        answers = [message for message in update.get("messages", []) if isinstance(message, ToolMessage)]
        send = next((sends[answer.tool_call_id] for answer in answers if answer.tool_call_id in sends), None)
        if from_outside or task == UPDATE_TASK:
            yield "update", NodeStep(values, update)
        elif send is not None:
            yield send.node, NodeStep(send.arg, update)
        else:
            yield triggered[0] if len(triggered) == 1 else "", NodeStep(values, update)


def _call_id(argument: Mapping[str, Any]) -> str:
    return str(argument["call"]["id"] if "call" in argument else argument.get("call_id"))


def _events(node: str, task: NodeStep) -> list[Record]:
    if node == "update":
        # What a reply of no use spent, the agent wrote itself; what was revoked before, it wrote again.
        again = {"usage": task.update.get("usage"), "grants": task.before.get("grants")}
        return state_updated(dict(each for each in task.update.items() if each not in again.items()), None)
    return [] if node == START else events_of(node, task)


def _applied(updates: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values after the updates of a step."""
    after = dict(values)
    for update in updates:
        after |= {**update, "usage": add_usage(after.get("usage"), update.get("usage"))}
    brought = [message for update in updates for message in update.get("messages", [])]
    return {**after, "messages": merge_messages(values["messages"], brought)}


def _changed(
    before: Sequence[AnyMessage], after: Sequence[AnyMessage], updates: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what a step changed, as JSON."""
    ids, ids_before = {message.id for message in after}, {message.id for message in before}
    changed = {
        "messages": [_as_json(message) for message in after if message.id not in ids_before],
        "removed": len(ids_before - ids),
        "plan": next((update["plan"] for update in reversed(updates) if update.get("plan")), None),
    }
    return {name: value for name, value in changed.items() if value}


def _as_json(message: AnyMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": message.id, "type": message.type, "text": str(message.text)}
    if isinstance(message, AIMessage) and (calls := shown_calls_of(message)):
        fields["calls"] = [{"id": call["id"], "tool": call["name"], "args": call["args"]} for call in calls]
    if isinstance(message, ToolMessage):
        fields |= {"call": message.tool_call_id, "tool": message.name, "status": message.status}
    return fields
