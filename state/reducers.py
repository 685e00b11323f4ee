"""How parallel updates of one channel become one value.

Every reducer is pure and total (None, missing keys and older shapes included), and all but
`add_usage` are commutative, associative and idempotent: the value does not depend on the order in
which parallel branches finish, and an update that is applied again changes nothing. Where two
updates contradict each other, the higher `order` or `revision` wins, then the greater canonical
JSON: an arbitrary choice, but the same one everywhere.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES, _messages_delta_reducer

from skills_agent.state.records import (
    CatalogRecord,
    Counts,
    GrantRecord,
    LoadedSkill,
    PlanRecord,
    SkillResources,
    SummaryRecord,
    UsageRecord,
)

Record = TypeVar("Record", bound=Mapping[str, Any])
Value = TypeVar("Value")


def merge_messages(state: list[AnyMessage] | None, writes: Sequence[Any]) -> list[AnyMessage]:
    """Append messages, replace those whose id is known, drop those that a RemoveMessage names.

    LangGraph's delta reducer does the work. Added here: a channel that was never written (None),
    `REMOVE_ALL_MESSAGES`, and an id for input that came without one (`("user", "hi")`). Such an id
    is the digest of the message and its predecessor, so that replaying the writes gives it again.
    """
    messages: list[AnyMessage] = list(state or [])
    batch: list[AnyMessage] = []
    for message in _flatten(writes):
        if message.id == REMOVE_ALL_MESSAGES:
            messages, batch = [], []
            continue
        if message.id:
            batch.append(cast("AnyMessage", message))
        else:
            messages = _messages_delta_reducer(messages, [batch])
            batch = [cast("AnyMessage", _identify(message, messages))]
    return _messages_delta_reducer(messages, [batch])


def _flatten(writes: Sequence[Any]) -> list[BaseMessage]:
    return [
        message
        for write in writes
        for message in convert_to_messages(write if isinstance(write, list) else [write])
    ]


def _identify(message: BaseMessage, before: Sequence[BaseMessage]) -> BaseMessage:
    previous = before[-1].id if before else ""
    seed = json.dumps([previous, message.type, message.content], sort_keys=True, default=str)
    return message.model_copy(update={"id": f"m-{hashlib.sha256(seed.encode()).hexdigest()[:16]}"})


def merge_ledger(
    state: dict[str, LoadedSkill] | None, writes: Sequence[dict[str, LoadedSkill] | None]
) -> dict[str, LoadedSkill]:
    """Merge loads and unloads by skill name; the newer order wins. Order of updates: irrelevant."""
    merged = dict(state or {})
    for write in writes:
        merged = _merge_by_key(merged, write, "order")
    return merged


def newest_catalog(
    state: CatalogRecord | None, writes: Sequence[CatalogRecord | None]
) -> CatalogRecord | None:
    """Keep the last record that was written: one node writes it, whole."""
    return next((write for write in reversed(writes) if write), state)


def in_batches(
    reducer: Callable[[Value | None, Value | None], Value],
) -> Callable[[Value | None, Sequence[Value | None]], Value | None]:
    """Return a reducer of two values as one of a value and a batch of writes, as delta channels want it."""

    def fold(state: Value | None, writes: Sequence[Value | None]) -> Value | None:
        for write in writes:
            state = reducer(state, write)
        return state

    return fold


def merge_resources(
    left: dict[str, SkillResources] | None, right: dict[str, SkillResources] | None
) -> dict[str, SkillResources]:
    """Merge file lists by skill name; the list of the newer load wins whole."""
    return _merge_by_key(left or {}, right, "order")


def merge_grants(
    left: dict[str, GrantRecord] | None, right: dict[str, GrantRecord] | None
) -> dict[str, GrantRecord]:
    """Merge grants by id; a revocation wins over what it revokes, whichever comes first."""
    return _merge_by_key(left or {}, right, "revoked")


def newest_plan(left: PlanRecord | None, right: PlanRecord | None) -> PlanRecord | None:
    """Keep the plan with the higher revision."""
    if left is None or right is None:
        return left if right is None else right
    return _newer(left, right, "revision")


def newest_summary(
    state: SummaryRecord | None, writes: Sequence[SummaryRecord | None]
) -> SummaryRecord | dict[str, Any]:
    """Keep the summary of the newest turn; an empty record before the first."""
    newest: SummaryRecord | dict[str, Any] = state or {}
    for write in writes:
        if write:
            newest = _newer(newest, write, "turn") if newest else write
    return newest


def add_usage(left: UsageRecord | None, right: UsageRecord | None) -> UsageRecord:
    """Sum what was spent. Commutative and associative; NOT idempotent: a repeated update counts again.

    The counts of the turn belong to the highest turn number seen: the first update of a new turn
    starts them again, a late one of an old turn reaches the thread's counts only.
    """
    turn = max(_turn(left), _turn(right))
    return UsageRecord(
        turn=turn,
        this_turn=_sum(*(usage["this_turn"] for usage in (left, right) if usage and _turn(usage) == turn)),
        thread=_sum(*(usage["thread"] for usage in (left, right) if usage)),
    )


def spent(turn: int, **counts: int) -> UsageRecord:
    """Return the update that adds `counts` (fields of `Counts`) to a turn and to its thread."""
    one = _sum(cast("Counts", counts))
    return UsageRecord(turn=turn, this_turn=one, thread=one)


def _turn(usage: UsageRecord | None) -> int:
    return usage.get("turn", 0) if usage else 0


def _sum(*parts: Counts) -> Counts:
    return Counts(
        model_calls=sum(part.get("model_calls", 0) for part in parts),
        tool_calls=sum(part.get("tool_calls", 0) for part in parts),
        script_runs=sum(part.get("script_runs", 0) for part in parts),
        input_tokens=sum(part.get("input_tokens", 0) for part in parts),
        output_tokens=sum(part.get("output_tokens", 0) for part in parts),
    )


def _merge_by_key(left: dict[str, Record], right: dict[str, Record] | None, rank: str) -> dict[str, Record]:
    merged = dict(left)
    for key, record in (right or {}).items():
        merged[key] = _newer(merged[key], record, rank) if key in merged else record
    return merged


def _newer(left: Record, right: Record, rank: str) -> Record:
    return max(left, right, key=lambda record: (record.get(rank) or 0, _canonical(record)))


def _canonical(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, default=str)
