"""What is left to spend in a turn."""

from collections.abc import Mapping
from typing import Any

from skills_agent.state.context import Limits
from skills_agent.state.records import Counts

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
