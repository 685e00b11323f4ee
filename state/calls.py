"""Which calls of a step may run, by the channels: for the routes, and for `act`, which looks again."""

from langchain_core.messages.tool import ToolCall

from skills_agent.state.records import SkillPlace, active_skills
from skills_agent.state.schema import AgentState, CallRequest
from skills_agent.state.transcript import alike_calls


def call_request(state: AgentState, call_id: str) -> CallRequest | None:
    """Return the request for a call whose verdict is `allow`; None for any other."""
    verdict = (state.get("verdicts") or {}).get(call_id)
    if verdict is None or verdict["decision"] != "allow":
        return None
    call = ToolCall(name=verdict["tool"], args=verdict["args"], id=call_id, type="tool_call")
    return CallRequest(
        call=call,
        turn=state["usage"]["turn"],
        edited=verdict["reason"] == "edited",
        approved=verdict.get("digest", ""),
        skill=_place(state, verdict.get("skill")),
        earlier=alike_calls(state["messages"], call),
    )


def _place(state: AgentState, name: object) -> SkillPlace | None:
    loaded = active_skills(state.get("skills_loaded")).get(name) if isinstance(name, str) else None
    if loaded is None:
        return None
    return SkillPlace(
        name=loaded["name"], source=loaded["source"], path=loaded["path"], digest=loaded["digest"]
    )
