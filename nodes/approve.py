"""approve: ask a person, once for all open questions of the step."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AnyMessage
from langgraph.runtime import Runtime

from skills_agent.nodes.approval_facts import describe_question
from skills_agent.nodes.effects import JournalEntry
from skills_agent.nodes.granted import contents_of
from skills_agent.nodes.interrupts import (
    Answer,
    Approve,
    Reject,
    action_request,
    answers,
    make_question,
    put_question,
    unknown_text,
    with_words,
)
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.verdicts import denied, facts_of
from skills_agent.skills.policy.approval_text import Content, code
from skills_agent.skills.policy.grants import grant_fault
from skills_agent.skills.policy.patterns import Call
from skills_agent.state.context import Context
from skills_agent.state.records import GrantRecord, VerdictRecord
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import LOAD_SKILL, refusal


class Action(Answer):
    """A tool call as a person rewrote it."""

    name: str
    args: dict[str, Any]


class Edit(Answer):
    """Run this instead."""

    type: Literal["edit"]
    edited_action: Action


PersonDecision = Approve | Edit | Reject


def approve(state: AgentState, runtime: Runtime[Context], *, policy: Policy) -> AgentUpdate:
    """Ask about every call whose verdict is `ask`, and turn the answers into verdicts and grants.

    The node runs again from its first line when it is resumed, so it does nothing but ask. An answer of
    another shape, or of another number of decisions, is refused before it is saved: the question stays open.
    An edited call is judged again: what policy denies stays denied. A call that changed since the question
    is not run.
    """
    judge = Judge.of(policy, state, runtime)
    questions = {
        call_id: verdict for call_id, verdict in state["verdicts"].items() if verdict["decision"] == "ask"
    }
    request = make_question([_asked(each, judge) for each in questions.values()], fixed=[LOAD_SKILL])
    check = partial(_check_grants, [*questions.values()], judge)
    answer = put_question(request, answers(PersonDecision, len(questions), check))
    verdicts = dict(state["verdicts"])
    messages: list[AnyMessage] = []
    grants: dict[str, GrantRecord] = {}
    for (call_id, question), decision in zip(questions.items(), answer.decisions, strict=True):
        verdict = _verdict(question, decision, judge, _begun(call_id, question, policy))
        verdicts[call_id] = judge.recorded(call_id, verdict)
        grants[call_id] = _grant(call_id, verdict, decision, judge)
        if verdict["decision"] == "deny":
            messages.append(refusal(call_id, question["tool"], verdict["reason"]))
    return AgentUpdate(verdicts=verdicts, grants=grants, messages=messages)


def _asked(question: VerdictRecord, judge: Judge) -> dict[str, Any]:
    call = judge.call(question["tool"], question["args"])
    cut_off = question.get("cut_off")
    unknown = f"{cut_off['text']} To approve this call is to run it again." if cut_off else ""
    install = question.get("install")
    more = []
    if install:
        label = f"Installed first, outside of the sandbox, for scripts of {code(str(call.skill))}:"
        more.append(Content(label, "\n".join(map("  ".join, judge.policy.means.machine.listed(install)))))
    if measured := question.get("measured"):
        more.append(Content("Measured before this question:", measured))
    description = describe_question(call, facts_of(question), judge.policy, unknown, more)
    return action_request(call, description)


def _check_grants(
    questions: Sequence[VerdictRecord], judge: Judge, decisions: list[PersonDecision]
) -> list[PersonDecision]:
    for question, decision in zip(questions, decisions, strict=True):
        if isinstance(decision, Approve) and decision.grant is not None:
            call = judge.call(question["tool"], question["args"])
            grant, grammar = decision.grant, judge.policy.grammar
            if fault := grant_fault(grant.scope, grant.pattern, call, grammar):
                raise ValueError(fault)
    return decisions


def _begun(call_id: str, question: VerdictRecord, policy: Policy) -> JournalEntry | None:
    """Return what the journal has of a call that began already, in a run that was lost."""
    invocation, digest = policy.running(), question.get("digest", "")
    entry = invocation.known(call_id, question["tool"], digest) if invocation else None
    return entry if entry and entry.digest == digest else None


def _verdict(
    question: VerdictRecord, decision: PersonDecision, judge: Judge, begun: JournalEntry | None
) -> VerdictRecord:
    call = judge.call(question["tool"], question["args"])
    if isinstance(decision, Reject):
        return denied(question, "approval", {"rejected": _rejected(decision, question, begun)})
    if "digest" in question and judge.digest(call) != question["digest"]:
        return denied(question, "error", {"changed": question["tool"]})
    if not (begun and isinstance(decision, Approve)) and (path := _changed_path(call, question, judge)):
        return denied(question, "error", {"file_changed": path})
    verdict = VerdictRecord(**{**question, "by": "approval", "decision": "allow", "reason": "approved"})
    verdict["facts"] = {"approved": True}
    return _edited(verdict, decision.edited_action, judge) if isinstance(decision, Edit) else verdict


def _rejected(decision: Reject, question: VerdictRecord, begun: JournalEntry | None) -> str:
    if begun and not begun.is_unknown:
        when = (
            "before the conversation went back to this step" if begun.settled else "in a run that was cut off"
        )
        ran = f"This call ran at {begun.clock}, {when}. A person rejected it afterwards"
        return f"{with_words(ran, decision.message)} Check what it changed."
    cut_off = begun.description if begun else question.get("cut_off", {}).get("text")
    if cut_off:
        said = with_words("A person decided not to run it again", decision.message)
        return unknown_text(cut_off, said)
    return with_words("Not run: a person rejected this call", decision.message)


def _changed_path(call: Call, question: VerdictRecord, judge: Judge) -> str:
    """Return the file that a call would change and that is not as a person saw it; empty for none."""
    change = judge.policy.change(call)
    return change.path if change and change.digest != question.get("target", change.digest) else ""


def _edited(verdict: VerdictRecord, action: Action, judge: Judge) -> VerdictRecord:
    policy = judge.policy
    args, old_skill = policy.fitted(action.name, action.args), verdict.get("skill")
    new_call = judge.call(action.name, args)
    own = {"tool": action.name, "args": args, "reason": "edited", "facts": {"edited": True}}
    of_call = {"digest": judge.digest(new_call), "skill": new_call.skill}
    verdict = VerdictRecord(**{**verdict, **own, **of_call})  # type: ignore[typeddict-item]
    # They are of what the call was before; the packages, for the scripts of another skill.
    for name in ("target", "measured", *(("install",) if new_call.skill != old_skill else ())):
        verdict.pop(name, None)  # type: ignore[misc]
    if changed := policy.change(new_call):
        verdict["target"] = changed.digest
    again = judge.verdict(new_call)
    return denied(verdict, again.by, again.facts) if again.decision == "deny" else verdict


def _grant(call_id: str, verdict: VerdictRecord, decision: PersonDecision, judge: Judge) -> GrantRecord:
    wish = decision.grant if isinstance(decision, Approve) and verdict["decision"] == "allow" else None
    call = judge.call(verdict["tool"], verdict["args"])
    return GrantRecord(
        id=call_id,
        scope=wish.scope if wish else "call",
        tool=verdict["tool"],
        decision=decision.type,
        args=verdict["args"],
        message=decision.message if isinstance(decision, Reject) else "",
        revoked=False,
        pattern=(wish.pattern or "") if wish else "",
        skill=call.skill,
        user=judge.user,
        contents=contents_of(call, judge.loaded) if wish and wish.scope != "call" else {},
        digest=verdict.get("digest", ""),
    )
