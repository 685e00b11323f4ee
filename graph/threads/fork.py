"""Go on from an earlier step of a thread, in a new thread that depends on nothing of the old one.

A call that has no answer at that step never just runs: the old thread may have run it since, so the gate
judges it anew.
"""

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages.tool import ToolCall
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph import START
from langgraph.types import StateSnapshot

from skills_agent.graph.audit.events import event
from skills_agent.graph.langgraph_inside import QUESTION, UPDATE_TASK
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.database import config_of, options_in
from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.steps import FORKED_FROM, find_step
from skills_agent.graph.threads.thread import ThreadStatus, status_of
from skills_agent.skills.errors import list_names
from skills_agent.state.records import active_skills
from skills_agent.state.transcript import answered_ids, last_human, open_calls, wants_skills

_OF_ITS_STEP = frozenset({"admissions", "verdicts", "spent_budget"})
"""Channels that hold for the calls of one step, which are judged anew."""


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
    graph: CompiledAgent, thread: str, at: str, *, new: str | None, without_skills: Sequence[str]
) -> Fork:
    """Copy a thread as it was at a step into a new one, and return how it stands: see `Threads.fork`."""
    step = find_step(graph, thread, at)
    new = new or f"t-{secrets.token_hex(4)}"
    if graph.get_state(config_of(new)).created_at is not None:
        raise ThreadError(f"There is a thread {new!r} already. Choose another name.", code="fork-refused")
    config = config_of(thread, checkpoint=step.checkpoint)
    stored, snapshot = graph.saver_of(thread).get_tuple(config), graph.get_state(config)
    assert stored is not None  # noqa: S101 - it was just listed
    newest = graph.get_state(config_of(thread))
    is_newest = newest.config["configurable"]["checkpoint_id"] == step.checkpoint
    values = _values(graph, snapshot, stored, is_newest=is_newest)
    values["skills_loaded"] = _unloaded(values, without_skills)
    messages = values.get("messages") or []
    human = last_human(messages)
    forked = event(
        "thread_forked",
        source=thread,
        at=step.checkpoint,
        request=str(human.text) if human else "",
        without_skills=list(without_skills),
    )
    graph.services.audit.record_outside(new, forked, (values.get("usage") or {}).get("turn", 0))
    begun = config_of(new, options_in(stored))
    graph.update_own_state(
        {**begun, "metadata": {**begun["metadata"], FORKED_FROM: f"{thread}@{step.number}"}},
        {name: value for name, value in values.items() if name not in _OF_ITS_STEP and value is not None},
        # Not as `decide`: its route sees the few steps that an update has left, and ends the turn.
        as_node=START
        if "input" in step.nodes
        else "answer"
        if not snapshot.next
        else "discover"
        if wants_skills(messages)
        else "load",
    )
    since = answered_ids(newest.values.get("messages") or [])
    ran_before = tuple(call for call in open_calls(messages) if call["id"] in since)
    return Fork(new, thread, step.number, status_of(graph.get_state(config_of(new))), ran_before)


def _values(
    graph: CompiledAgent, snapshot: StateSnapshot, stored: CheckpointTuple, *, is_newest: bool
) -> dict[str, Any]:
    """Return the channels of a step, with what was written beside an open question or before a crash.

    A grant that was revoked while the step waited stays revoked.
    """
    values: dict[str, Any] = dict(snapshot.values)
    writes = stored.pending_writes or []
    asking = {task for task, name, _ in writes if name == QUESTION}
    for task, name, value in writes:
        channel = graph.channels.get(name)
        counts = task == UPDATE_TASK or (task not in asking and (asking or is_newest))
        if counts and isinstance(channel, BinaryOperatorAggregate | DeltaChannel):
            held = channel.from_checkpoint(values.get(name))
            held.update([value])
            values[name] = held.get()
    return values


def _unloaded(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    ledger: dict[str, Any] = dict(values.get("skills_loaded") or {})
    active = active_skills(ledger)
    for name in names:
        if name not in active:
            loaded = list_names(sorted(active))
            text = f"Skill {name!r} is not loaded at this step. Loaded: {loaded}."
            raise ThreadError(text, code="fork-refused")
        order = 1 + max(skill["order"] for skill in ledger.values())
        ledger[name] = {**ledger[name], "unloaded": True, "order": order}
    return ledger
