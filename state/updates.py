"""Updates of the state by one node, and of two nodes that run as one."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from typing_extensions import get_type_hints

from skills_agent.state.schema import AgentState, AgentUpdate


def applied(state: AgentState, update: AgentUpdate) -> AgentState:
    """Return the state as it is after an update."""
    return cast("AgentState", {**state, **_reduced(state, update)})


def joined(first: AgentUpdate, second: AgentUpdate) -> AgentUpdate:
    """Return the one update that does what two do, one after the other."""
    update = {**first, **_reduced(first, second)}
    if "messages" in first and "messages" in second:  # A message that removes others must stay one.
        update["messages"] = [*first["messages"], *second["messages"]]
    return cast("AgentUpdate", update)


def _reduced(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    reducers = _reducers()
    return {
        name: reducers[name](left.get(name), value) if name in reducers else value
        for name, value in right.items()
    }


@cache
def _reducers() -> Mapping[str, Callable[[Any, Any], Any]]:
    """Return the reducers of the channels that have one, by name."""
    hints = get_type_hints(AgentState, include_extras=True)
    marks = {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    return {name: getattr(mark, "reducer", mark) for name, mark in marks.items()}
