"""gate: a verdict for every tool call, from state and policy."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AnyMessage
from langchain_core.messages.tool import ToolCall
from langgraph.runtime import Runtime

from skills_agent.nodes.interrupts import check_answerable
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.no_tool import why_unread
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.script_programs import with_packages
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.verdict import ApprovalNeededError, Verdict
from skills_agent.state.budget import Limits, counts_of_turn, spent_on_calls
from skills_agent.state.context import Context
from skills_agent.state.endings import fault_of
from skills_agent.state.records import Counts, CutOffRecord, VerdictRecord
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import (
    LOAD_SKILL,
    alike_calls,
    last_ai,
    open_calls,
    open_unreadable_calls,
    refusal,
)

logger = logging.getLogger(__name__)

_NOT_MEASURED: Final = "Nothing: that is done for the first such call of a message alone."
_ADVICE: Final = "Make smaller calls: write a long file in several parts."


def gate(
    state: AgentState, runtime: Runtime[Context], *, policy: Policy, limits: Limits, running: Invocations
) -> AgentUpdate:
    """Judge every open call of the newest message, and answer the refused calls at once.

    The verdicts are a channel: what was allowed, asked or refused, and why, can be seen in Studio. Each
    holds for the digest of what was judged, and for nothing else. Raises ApprovalNeededError, before any
    call of the step runs, where nobody may be asked, and UnanswerableError where nobody can answer.
    """
    judge = Judge.of(policy, state, runtime)
    limits = judge.context.narrow(limits)
    spent = counts_of_turn(state)
    messages: list[AnyMessage] = []
    verdicts: dict[str, VerdictRecord] = {}
    for tool_call in open_calls(state["messages"]):
        call_id, call = tool_call["id"] or "", judge.call(tool_call["name"], tool_call["args"])
        if call.tool == LOAD_SKILL:
            continue
        verdict = _within_budget(judge.verdict(call), call, limits, spent)
        if verdict.decision == "ask":
            if policy.approval == "fail":
                raise ApprovalNeededError(call.tool, verdict.reason)
            check_answerable(call.tool)
        record = _record(call, tool_call["args"], verdict, judge)
        if record["decision"] == "ask":
            record = _with_cut_off(record, tool_call, state, running)
            record = with_packages(record, call, judge)
            record = _with_measured(record, call, judge, verdicts)
        verdicts[call_id] = judge.recorded(call_id, record)
        if record["decision"] == "deny":
            logger.warning("tool blocked by policy", extra={"tool": call.tool, "by": record["by"]})
            messages.append(refusal(call_id, call.tool, record["reason"]))
    fault = fault_of(last_ai(state["messages"]))
    for unreadable in open_unreadable_calls(state["messages"]):
        text = (
            f"This call was {fault}; nothing of it ran. {_ADVICE}" if fault else why_unread(judge, unreadable)
        )
        messages.append(refusal(unreadable["id"] or "", unreadable["name"] or "", text))
    return AgentUpdate(verdicts=verdicts, messages=messages) if messages else AgentUpdate(verdicts=verdicts)


def _within_budget(verdict: Verdict, call: Call, limits: Limits, spent: Counts) -> Verdict:
    """Return the verdict on a call, and count it; where no room is left for it, a refusal."""
    if verdict.decision == "deny":
        return verdict
    is_script = call.spec.counts_as == "script"
    if budget := spent_on_calls(limits, spent["tool_calls"], spent["script_runs"] if is_script else 0):
        return Verdict("deny", "budget", {"budget": budget})
    spent["tool_calls"] += 1
    spent["script_runs"] += is_script
    return verdict


def _record(call: Call, args: Mapping[str, Any], verdict: Verdict, judge: Judge) -> VerdictRecord:
    record = VerdictRecord(
        tool=call.tool,
        args=dict(args),
        decision=verdict.decision,
        reason=verdict.reason,
        facts=dict(verdict.facts),
        by=verdict.by,
        skill=call.skill,
    )
    if verdict.decision != "deny":
        record["digest"] = judge.pin(call, verdict)
    if verdict.decision == "ask" and (change := judge.policy.change(call)):
        record["target"] = change.digest
    if verdict.grant:
        record["grant"] = verdict.grant
    return record


def _with_cut_off(
    record: VerdictRecord, call: ToolCall, state: AgentState, running: Invocations
) -> VerdictRecord:
    """Return a question with what it has to say of an earlier attempt at the same effect.

    The answer holds for both, so `act` does not ask a second time.
    """
    if invocation := running.current():
        call_id, earlier = call["id"] or "", alike_calls(state["messages"], call)
        entry = invocation.find_entry(call_id, record["tool"], record["digest"], earlier, running.alive)
        if entry and entry.is_unknown and entry.started and entry.attempt_key not in running.effects:
            record["cut_off"] = CutOffRecord(started=entry.started, text=entry.description)
    return record


def _with_measured(
    record: VerdictRecord, call: Call, judge: Judge, others: Mapping[str, VerdictRecord]
) -> VerdictRecord:
    """Return a question with what takes time to know, so that it is found out once.

    That is done for one call of a tool in a message: a model could make many, and nobody has said yes.
    """
    if call.tool in judge.policy.means.measures:
        is_first = all(other["tool"] != call.tool or other["decision"] != "ask" for other in others.values())
        measured = judge.policy.measured(call, judge.context) if is_first else _NOT_MEASURED
        if measured:
            record["measured"] = measured
    return record
