"""What is left to spend in a turn."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from skills_agent.state.context import Limits
from skills_agent.state.records import Counts, VerdictRecord

MAX_SAME_REFUSALS = 3
"""A call that was refused this often in a turn ends it: the model does not read its refusals."""

STEPS_OF_A_ROUND = 8
"""Supersteps that must remain to go round once more: select, load, gate, approve, act, decide, answer."""


def counts_of_turn(state: Mapping[str, Any]) -> Counts:
    """Return what this turn spent so far; zeros before the first update."""
    usage = state.get("usage") or {}
    zero = Counts(model_calls=0, tool_calls=0, script_runs=0, input_tokens=0, output_tokens=0)
    return Counts(**{**zero, **usage.get("this_turn", {})})


def spent_budget(state: Mapping[str, Any], limits: Limits) -> str | None:
    """Name the budget that forbids another round, or None.

    The graph's own step limit counts as a budget: a server may set it lower than our limits need,
    and LangGraph's recursion error would lose the answer.
    """
    counts = counts_of_turn(state)
    if counts["model_calls"] >= limits.max_turns:
        return f"{limits.max_turns} model calls"
    if counts["tool_calls"] >= limits.max_tool_calls:
        return f"{limits.max_tool_calls} tool calls"
    if state.get("remaining_steps", STEPS_OF_A_ROUND) < STEPS_OF_A_ROUND:
        return "graph steps"
    return None


def count_refusals(state: Mapping[str, Any], verdicts: Iterable[VerdictRecord]) -> dict[str, int]:
    """Return how often each call was refused in this turn; calls alike in one step count once."""
    before = state.get("refused") or {}
    refused = {_key(verdict) for verdict in verdicts if verdict["decision"] == "deny"}
    return {**before, **{key: before.get(key, 0) + 1 for key in refused}}


def refused_too_often(state: Mapping[str, Any]) -> str | None:
    """Name the tool of this step's call that was refused again and again, or None."""
    refused = state.get("refused") or {}
    verdicts: Iterable[VerdictRecord] = (state.get("verdicts") or {}).values()
    return next(
        (
            verdict["tool"]
            for verdict in verdicts
            if verdict["decision"] == "deny" and refused.get(_key(verdict), 0) >= MAX_SAME_REFUSALS
        ),
        None,
    )


def _key(verdict: VerdictRecord) -> str:
    call = json.dumps([verdict["tool"], verdict["args"]], sort_keys=True, default=str)
    return hashlib.sha256(call.encode()).hexdigest()[:16]
