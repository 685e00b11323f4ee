"""The first step of a turn in which the model can be asked at once: `discover` and `decide` side by side."""

from collections.abc import Callable
from typing import Any, Final

from langgraph.runtime import Runtime

from skills_agent.nodes.effects import Invocations
from skills_agent.nodes.model_call import RecordedSteps, Steps
from skills_agent.nodes.select import may_ask_for_skills
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import is_whole
from skills_agent.state.turn_end import begins_turn
from skills_agent.state.updates import applied

_OF_DECIDE: Final = frozenset({"answer", "spent_budget"})
"""Channels that both nodes would write: LangGraph takes one value a step, and `decide` knows the last one."""

_BESIDE_SECONDS: Final = 0.05
"""For `discover` to begin beside `decide`: a step that goes on after a failure may be without it."""

Discover = Callable[[Any, Runtime[Context]], AgentUpdate]


def begins_plainly(state: AgentState) -> bool:
    """Return whether nothing is to be done before the model is asked, as in most turns."""
    return begins_turn(state) and not may_ask_for_skills(state) and is_whole(state.get("messages") or [])


def discover_beside(discover: Discover, running: Invocations) -> Discover:
    """Return `discover`, which tells `decide` beside it, and leaves to that what it writes, too."""

    def node(state: AgentState, runtime: Runtime[Context]) -> Any:
        if not begins_plainly(state):
            return discover(state, runtime)
        beginning = running.beginning()
        try:
            update = discover(state, runtime)
        except BaseException as error:
            beginning.set_exception(error)
            raise
        beginning.set_result(update)
        return {name: value for name, value in update.items() if name not in _OF_DECIDE}

    return node


def decide_beside(discover: Discover, decide: RecordedSteps, running: Invocations) -> RecordedSteps:
    """Return the steps of `decide`, which know what `discover` finds in the same step.

    Where that shows that a summary or a skill comes first, the model is not asked: `discover` leads on.
    """

    def steps(state: AgentState, runtime: Runtime[Context], is_left: Callable[[], bool]) -> Steps[Any]:
        if not begins_plainly(state):
            return (yield from decide(state, runtime, is_left))
        begun = running.begun(_BESIDE_SECONDS) or discover(state, runtime)
        now: AgentState = applied(state, begun)
        emptied: Any = {name: value for name, value in begun.items() if name in _OF_DECIDE}
        if now.get("history_too_long") or may_ask_for_skills(now):
            return emptied
        decided = yield from decide(now, runtime, is_left)
        return {**emptied, **decided}

    return steps
