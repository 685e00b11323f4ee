"""The first step of a turn in which the model can be asked at once: `discover` and `decide` as one."""

from collections.abc import Callable
from typing import Any

from langgraph.runtime import Runtime

from skills_agent.nodes.model_call import RecordedSteps, Steps
from skills_agent.nodes.select import may_ask_for_skills
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.turn_end import begins_turn
from skills_agent.state.updates import applied, joined


def begin_and_decide(
    discover: Callable[[Any, Runtime[Context]], AgentUpdate], decide: RecordedSteps
) -> RecordedSteps:
    """Return the steps of `decide`, which discover the skills where they begin a turn.

    Their update is that of both nodes. Where a summary or a skill comes first, it is that of `discover`.
    """

    def steps(state: AgentState, runtime: Runtime[Context], is_left: Callable[[], bool]) -> Steps[Any]:
        if not begins_turn(state):
            return (yield from decide(state, runtime, is_left))
        begun = discover(state, runtime)
        now = applied(state, begun)
        if now.get("history_too_long") or may_ask_for_skills(now):
            return begun
        decided = yield from decide(now, runtime, is_left)
        return joined(begun, decided)

    return steps
