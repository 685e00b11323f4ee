"""counted: what a call costs, and that a person changed it."""

import json

from langgraph.types import Command

from skills_agent.nodes.effects import as_list, tool_messages
from skills_agent.nodes.links.attempt import Attempt, Outputs, Rest, with_note
from skills_agent.nodes.two_paths import Steps
from skills_agent.state.reducers import spent
from skills_agent.state.schema import AgentUpdate
from skills_agent.state.transcript import marks_of


def counted(attempt: Attempt, rest: Rest) -> Steps[Outputs]:
    """Return what came of a call with what it cost: LangGraph takes a list only with a Command in it."""
    produced = yield from rest(attempt)
    args = attempt.call["args"]
    if attempt.record["reason"] == "edited":
        written = json.dumps(args, ensure_ascii=False)
        produced = with_note(
            produced, f"[A person changed this call before it ran: {attempt.name} {written}]"
        )
        for message in tool_messages(produced):
            message.additional_kwargs = {"skills_agent": {**marks_of(message), "edited": args}}
    scripts = int(attempt.spec.counts_as == "script")
    cost = spent(attempt.state["usage"]["turn"], tool_calls=1, script_runs=scripts)
    return [*as_list(produced), Command(update=AgentUpdate(usage=cost))]
