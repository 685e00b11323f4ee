"""on_record: a call goes on only where it is open in the transcript, and allowed as it stands there."""

from typing import Any

from skills_agent.nodes.interrupts import answer_unknown
from skills_agent.nodes.links.attempt import Attempt, NotRun, Rest
from skills_agent.nodes.two_paths import Steps
from skills_agent.nodes.verdicts import call_request
from skills_agent.skills.policy.reasons import reason
from skills_agent.state.schema import AgentState, CallRequest
from skills_agent.state.transcript import answered_ids, open_calls, refusal


def on_record(attempt: Attempt, rest: Rest) -> Steps[Any]:
    """Take the call as the state has it: a client may have sent it, or changed the transcript since."""
    confirmed = _confirmed(attempt.id, attempt.state)
    if confirmed is None:
        raise _doubted(attempt)
    attempt.request = confirmed
    return (yield from rest(attempt))


def _confirmed(call_id: str, state: AgentState) -> CallRequest | None:
    """Return the request for a call as the state has it; None where it is not open, or not allowed."""
    told = next((each for each in open_calls(state.get("messages") or []) if each["id"] == call_id), None)
    request = call_request(state, call_id)
    if told is None or request is None:
        return None
    verdict, call = state["verdicts"][call_id], request["call"]
    is_edit = verdict["by"] == "approval" and verdict["reason"] == "edited"
    return request if is_edit or (call["name"], call["args"]) == (told["name"], told["args"]) else None


def _doubted(attempt: Attempt) -> NotRun:
    """Answer a call that is not open, or has no verdict; it may have begun before a crash."""
    text, invocation = reason({"unapproved": attempt.name}), attempt.at.running.current()
    attempt.at.observer.doubted(attempt.call, text)
    entry = invocation.journal.get(invocation.thread, attempt.id) if invocation else None
    message = refusal(attempt.id, attempt.name, text)
    if entry and entry.is_unknown:
        message = answer_unknown(
            attempt.id, entry, "No approval of it is confirmed here: it is not run again."
        )
    transcript = attempt.state.get("messages") or []
    is_open = any(call["id"] == attempt.id for call in open_calls(transcript))
    return NotRun(message if is_open or attempt.id not in answered_ids(transcript) else None)
