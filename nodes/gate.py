"""gate: a verdict for every tool call, from state and policy."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AnyMessage
from langchain_core.messages.tool import ToolCall
from langgraph.runtime import Runtime

from skills_agent.nodes.asking import check_answerable, over_budget_text
from skills_agent.nodes.effects import Invocations
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.policy import Policy
from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.verdict import ApprovalNeededError, Verdict
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import count
from skills_agent.state.budget import Limits, counts_of_turn, spent_on_calls
from skills_agent.state.context import Context
from skills_agent.state.endings import fault_of
from skills_agent.state.records import CutOffRecord, VerdictRecord
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
    counts = counts_of_turn(state)
    context = Context.of(runtime.context)
    limits = context.narrow(limits)
    tool_calls, script_runs = counts["tool_calls"], counts["script_runs"]
    messages: list[AnyMessage] = []
    verdicts: dict[str, VerdictRecord] = {}
    for tool_call in open_calls(state["messages"]):
        call_id, call = tool_call["id"] or "", judge.call(tool_call["name"], tool_call["args"])
        if call.tool == LOAD_SKILL:
            continue
        verdict = judge.verdict(call)
        if verdict.decision != "deny":
            runs_script = call.spec.counts_as == "script"
            if spent := spent_on_calls(limits, tool_calls, script_runs if runs_script else 0):
                verdict = replace(verdict, decision="deny", reason=over_budget_text(spent), by="budget")
            else:
                tool_calls += 1
                script_runs += runs_script
        if verdict.decision == "ask":
            _check_may_ask(call, verdict, policy)
        record = _record(call, tool_call["args"], verdict, judge, policy)
        record = _with_packages(_with_cut_off(record, tool_call, state, running), call, judge, policy)
        record = _with_measured(record, call, policy, context, verdicts)
        verdicts[call_id] = judge.recorded(call_id, record)
        if record["decision"] == "deny":
            logger.warning("tool blocked by policy", extra={"tool": call.tool, "by": record["by"]})
            messages.append(refusal(call_id, call.tool, record["reason"]))
    fault = fault_of(last_ai(state["messages"]))
    for unreadable in open_unreadable_calls(state["messages"]):
        text = f"This call was {fault}; nothing of it ran. {_ADVICE}" if fault else judge.unread(unreadable)
        messages.append(refusal(unreadable["id"] or "", unreadable["name"] or "", text))
    update = AgentUpdate(verdicts=verdicts)
    if messages:
        update["messages"] = messages
    return update


def _with_cut_off(
    record: VerdictRecord, call: ToolCall, state: AgentState, running: Invocations
) -> VerdictRecord:
    """Return a verdict with what its question has to say of an earlier attempt at the same effect.

    The answer holds for both, so `act` does not ask a second time.
    """
    invocation = running.current()
    if record["decision"] != "ask" or invocation is None:
        return record
    call_id, earlier = call["id"] or "", alike_calls(state["messages"], call)
    entry = invocation.find_entry(call_id, record["tool"], record["digest"], earlier, running.alive)
    if entry and entry.is_unknown and entry.started and entry.attempt_key not in running.effects:
        record["cut_off"] = CutOffRecord(started=entry.started, text=entry.description)
    return record


def _with_packages(record: VerdictRecord, call: Call, judge: Judge, policy: Policy) -> VerdictRecord:
    """Return a question with the packages that are to be installed first, where the call lacks some.

    A list that cannot be resolved is said. A call that surely fails without it is denied then.
    """
    kinds = judge.lacking(call) if record["decision"] == "ask" else ()
    skill = judge.loaded.get(call.skill or "")
    if not kinds or skill is None:
        return record
    ref = SkillRef.of(skill)
    try:
        prepared = policy.means.machine.prepare(judge.registry.needs(ref), kinds)
    except SkillError as error:
        if fault := judge.packages_fault(call):
            return VerdictRecord(
                **{**record, "decision": "deny", "reason": f"{fault} {error}", "by": "error"}
            )
        return VerdictRecord(**{**record, "reason": f"{record['reason']} Its packages are not here. {error}"})
    number = count(prepared.number, "package")
    asked = f" To approve it is to install {number} for scripts of {skill['name']} first."
    left = "".join(f" {note}" for note in prepared.notes)
    return VerdictRecord(
        **{**record, "reason": f"{record['reason']}{asked}{left}", "install": prepared.install}
    )


def _with_measured(
    record: VerdictRecord,
    call: Call,
    policy: Policy,
    context: Context,
    others: Mapping[str, VerdictRecord],
) -> VerdictRecord:
    """Return a question with what takes time to know, so that it is found out once.

    That is done for one call of a tool in a message: a model could make many, and nobody has said yes.
    """
    if record["decision"] != "ask" or call.tool not in policy.means.measures:
        return record
    is_first = all(each["tool"] != call.tool or each["decision"] != "ask" for each in others.values())
    measured = policy.measured(call, context) if is_first else _NOT_MEASURED
    return VerdictRecord(**{**record, "measured": measured}) if measured else record


def _check_may_ask(call: Call, verdict: Verdict, policy: Policy) -> None:
    if policy.approval == "fail":
        raise ApprovalNeededError(call.tool, verdict.reason)
    check_answerable(call.tool)


def _record(
    call: Call, args: Mapping[str, Any], verdict: Verdict, judge: Judge, policy: Policy
) -> VerdictRecord:
    record = VerdictRecord(
        tool=call.tool,
        args=dict(args),
        decision=verdict.decision,
        reason=verdict.reason,
        by=verdict.by,
        skill=call.skill,
    )
    if verdict.decision != "deny":
        record["digest"] = judge.pin(call, verdict)
    if verdict.decision == "ask" and (change := policy.change(call)):
        record["target"] = change.digest
    if verdict.grant:
        record["grant"] = verdict.grant
    return record
