"""What one turn may spend, and what is left of it.

Imports no LangGraph: the settings have these limits, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import msgspec

from skills_agent.state.records import Counts

Positive = Annotated[int, msgspec.Meta(ge=1)]

OnChange = Literal["pin", "refresh", "ask"]
"""What becomes of a loaded skill that changed on disk: keep the loaded text, load anew, or ask a person."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one turn may spend. Each limit is a setting, and a caller may lower most of them."""

    max_model_calls: Positive = 12
    """Model calls in one turn."""
    max_tool_calls: Positive = 30
    """Tool calls in one turn."""
    max_script_runs: Positive = 10
    """Runs of scripts in one turn."""
    max_loaded_skills: Positive = 10
    """Skills that are loaded at the same time."""
    when_full: Literal["refuse", "replace"] = "refuse"
    """With so many loaded: `refuse` another, or `replace` the one that was not used for longest."""
    fork_skills: Literal["isolated", "inherit"] = "isolated"
    """Skills that a [fork](forks.md) begins with: its own alone, or its caller's, too (`inherit`)."""


MAX_SKILLS_A_STEP = 3
"""Skills that one model message may load."""

CONTENT_SHARE = 0.5
"""Share of the model's window that the instructions of loaded skills may take."""

MAX_SAME_REFUSALS = 3
"""A call that was refused this often in a turn ends it: the model does not read its refusals."""

MAX_SAME_RESULTS = 2
"""A call that gave the same result this often, one after the other, is not run again: the model has it."""

STEPS_OF_A_ROUND = 8
"""Supersteps that must remain to go round once more: select, load, gate, approve, act, decide, answer."""


def counts_of_turn(state: Mapping[str, Any]) -> Counts:
    """Return what this turn spent so far; zeros before the first update."""
    usage = (state.get("usage") or {}).get("this_turn", {})
    return cast("Counts", {**dict.fromkeys(Counts.__annotations__, 0), **usage})


def spent_on_calls(limits: Limits, tool_calls: int, script_runs: int) -> str | None:
    """Name the budget that has no room for another call, or None; `script_runs` is 0 for no script."""
    if tool_calls >= limits.max_tool_calls:
        return f"{limits.max_tool_calls} tool calls"
    return f"{limits.max_script_runs} script runs" if script_runs >= limits.max_script_runs else None


def spent_budget(state: Mapping[str, Any], limits: Limits) -> str | None:
    """Name the budget that forbids another round, or None.

    The graph's own step limit counts as a budget: a server may set it lower than our limits need,
    and LangGraph's recursion error would lose the answer.
    """
    counts = counts_of_turn(state)
    if counts["model_calls"] >= limits.max_model_calls:
        return f"{limits.max_model_calls} model calls"
    if spent := spent_on_calls(limits, counts["tool_calls"], 0):
        return spent
    if state.get("remaining_steps", STEPS_OF_A_ROUND) < STEPS_OF_A_ROUND:
        return "graph steps"
    return None
