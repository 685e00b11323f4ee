"""Which calls of a step may run, by the channels: for the routes, and for `act`, which looks again."""

from langchain_core.messages.tool import tool_call

from skills_agent.state.schema import AgentState, CallRequest


def call_request(state: AgentState, call_id: str) -> CallRequest | None:
    """Return the request for a call whose verdict is `allow`; None for any other."""
    verdict = (state.get("verdicts") or {}).get(call_id)
    if verdict is None or verdict["decision"] != "allow":
        return None
    call = tool_call(name=verdict["tool"], args=verdict["args"], id=call_id)
    return CallRequest(call=call, approved=verdict.get("digest", ""))
