"""Verdicts as the state keeps them."""

from langchain_core.messages.tool import tool_call

from skills_agent.skills.policy.reasons import Facts, reason
from skills_agent.skills.policy.verdict import Author
from skills_agent.state.records import VerdictRecord
from skills_agent.state.schema import AgentState, CallRequest


def denied(record: VerdictRecord, by: Author, facts: Facts) -> VerdictRecord:
    """Return a verdict that denies its call for other reasons."""
    own = {"decision": "deny", "by": by, "facts": dict(facts), "reason": reason(facts)}
    return VerdictRecord(**{**record, **own})  # type: ignore[typeddict-item]


def with_facts(record: VerdictRecord, more: Facts) -> VerdictRecord:
    """Return a verdict with more facts."""
    facts = {**facts_of(record), **more}
    return VerdictRecord(**{**record, "facts": facts, "reason": reason(facts)})


def facts_of(record: VerdictRecord) -> Facts:
    """Return the facts of a verdict; of one that an earlier build recorded, its sentence."""
    return record["facts"] if "facts" in record else {"said": record["reason"]}


def call_request(state: AgentState, call_id: str) -> CallRequest | None:
    """Return the request for a call whose verdict is `allow`; None for any other.

    For the routes, and for `act`, which looks again.
    """
    verdict = (state.get("verdicts") or {}).get(call_id)
    if verdict is None or verdict["decision"] != "allow":
        return None
    call = tool_call(name=verdict["tool"], args=verdict["args"], id=call_id)
    return CallRequest(call=call, approved=verdict.get("digest", ""))
