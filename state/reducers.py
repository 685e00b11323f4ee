"""How parallel updates of one channel become one value.

Every reducer takes two values, either of which may be None or of an older version. All but `add_usage` are
commutative, associative and idempotent: the value does not depend on the order in which parallel branches
finish, and an update that is applied again changes nothing. Where two updates contradict each other, the
higher `order`, `revision` or `turn` wins, or what is `revoked`, then the greater canonical JSON, which is
arbitrary but always the same.
"""

import hashlib
import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final, TypeVar, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from skills_agent.state.records import CatalogRecord, Counts, UsageRecord

Record = TypeVar("Record", bound=Mapping[str, Any])

_ZERO: Final = dict.fromkeys(Counts.__annotations__, 0)


def merge_messages(left: list[AnyMessage] | None, right: Any) -> list[AnyMessage]:
    """Append messages, replace those whose id is known, drop those that a RemoveMessage names.

    `right` is a message or a list of them, also a list of such lists. A message without an id
    (`("user", "hi")`) gets one: the digest of the message and its predecessor, so that the same
    input gives the same id when it is read again. So does one that must not take the place of the message
    that has its id: a person's of the model's, or the answer of one step of the answer of another.
    """
    merged: dict[str, AnyMessage] = {message.id or f"#{at}": message for at, message in enumerate(left or [])}
    for message in flatten(right):
        if message.id == REMOVE_ALL_MESSAGES:
            merged.clear()
        elif isinstance(message, RemoveMessage):
            merged.pop(message.id or "", None)
        else:
            keeps_id = message.id and (message.id not in merged or _may_replace(message, merged))
            new = message if keeps_id else _identify(message, next(reversed(merged.values()), None))
            merged[new.id or ""] = cast("AnyMessage", new)
    return list(merged.values())


def _may_replace(message: BaseMessage, merged: dict[str, AnyMessage]) -> bool:
    """Return whether a message may take the place of the one with its id; its text may be another by now."""
    if isinstance(message, HumanMessage) != isinstance(merged[message.id or ""], HumanMessage):
        return False
    if not isinstance(message, ToolMessage):
        return True
    step = takewhile(lambda each: not isinstance(each, AIMessage), reversed(merged.values()))
    return any(each.id == message.id for each in step)


def flatten(messages: Any) -> list[BaseMessage]:
    """Return the messages of one write, in whatever form they were given."""
    parts = messages if isinstance(messages, list) else [messages]
    lists = (part if isinstance(part, list) else [part] for part in parts if part is not None)
    return [message for each in lists for message in convert_to_messages(each)]


def _identify(message: BaseMessage, predecessor: BaseMessage | None) -> BaseMessage:
    before = predecessor.id if predecessor else ""
    seed = json.dumps([before, message.type, message.content], sort_keys=True, default=str)
    return message.model_copy(update={"id": f"m-{hashlib.sha256(seed.encode()).hexdigest()[:16]}"})


def merge_records(left: dict[str, Record] | None, right: dict[str, Record] | None) -> dict[str, Record]:
    """Merge records by key: loads and unloads of skills, lists of their files, grants by id."""
    merged = dict(left or {})
    for key, record in (right or {}).items():
        merged[key] = newest(merged.get(key), record) or record
    return merged


def newest(left: Record | None, right: Record | None) -> Record | None:
    """Keep the newer record, whole: a load, an unload, a plan, a summary; of a grant, the revoked one."""
    return max(left, right, key=_rank) if left and right else right or left


def newest_catalog(left: CatalogRecord | None, right: CatalogRecord | None) -> CatalogRecord | None:
    """Keep the record that was written last: one node writes it."""
    return right or left


def add_usage(left: UsageRecord | None, right: UsageRecord | None) -> UsageRecord:
    """Sum what was spent. Commutative and associative; NOT idempotent: a repeated update counts again.

    The counts of the turn belong to the highest turn number seen: the first update of a new turn
    starts them again, a late one of an old turn reaches the thread's counts only.
    """
    turn, both = max(_turn(left), _turn(right)), [usage for usage in (left, right) if usage]
    total = UsageRecord(
        turn=turn,
        this_turn=_sum(*(usage["this_turn"] for usage in both if _turn(usage) == turn)),
        thread=_sum(*(usage["thread"] for usage in both)),
    )
    models = [usage.get("by_model") or {} for usage in both]
    if names := sorted({name for each in models for name in each}):
        total["by_model"] = {name: _not_zero(*(each.get(name, {}) for each in models)) for name in names}
    return total


def spent(turn: int, model: str = "", **counts: int) -> UsageRecord:
    """Return the update that adds `counts` (fields of `Counts`) to a turn, to its thread, and to a model."""
    one = _sum(counts)
    usage = UsageRecord(turn=turn, this_turn=one, thread=one)
    if model:
        usage["by_model"] = {model: _not_zero(counts)}
    return usage


def _turn(usage: UsageRecord | None) -> int:
    return usage.get("turn", 0) if usage else 0


def _sum(*parts: Mapping[str, Any]) -> Counts:
    total = dict(_ZERO)
    for part in parts:
        for name, count in part.items():
            if count and name in total:
                total[name] += count
    return cast("Counts", total)


def _not_zero(*parts: Mapping[str, Any]) -> dict[str, int]:
    counts: Mapping[str, Any] = _sum(*parts)
    return {name: count for name, count in counts.items() if count}


def _rank(record: Mapping[str, Any]) -> tuple[list[int], str]:
    numbers = [record.get(name) or 0 for name in ("order", "revision", "turn", "revoked")]
    return numbers, json.dumps(record, sort_keys=True, default=str)
