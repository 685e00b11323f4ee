"""approve: ask a person, once for all open questions of the step."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from langchain_core.messages import AnyMessage
from langchain_core.messages.tool import ToolCall, tool_call
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import AfterValidator, Field, create_model

from skills_agent.nodes.judge import (
    ActionRequest,
    Answer,
    HITLRequest,
    Judge,
    Policy,
    Reject,
    ReviewConfig,
    changed_text,
)
from skills_agent.skills.policy.grants import grant_fault
from skills_agent.skills.policy.patterns import Grammar
from skills_agent.state.budget import count_refusals
from skills_agent.state.context import Context
from skills_agent.state.records import GrantRecord, VerdictRecord
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import LOAD_SKILL, refusal


class GrantWish(Answer):
    """For which later calls an approval holds, too."""

    scope: Literal["call", "skill", "pattern", "thread"]
    pattern: str | None = None
    """An entry as in `allowed-tools`, with the scope `pattern`."""


class Approve(Answer):
    """Run it as asked."""

    type: Literal["approve"]
    grant: GrantWish | None = None


class Action(Answer):
    """A tool call as a person rewrote it."""

    name: str
    args: dict[str, Any]


class Edit(Answer):
    """Run this instead."""

    type: Literal["edit"]
    edited_action: Action


Decision = Annotated[Approve | Edit | Reject, Field(discriminator="type")]


def approve(state: AgentState, runtime: Runtime[Context], *, policy: Policy) -> AgentUpdate:
    """Ask about every call whose verdict is `ask`, and turn the answers into verdicts and grants.

    The node runs again from its first line when it is resumed, so it does nothing but ask. An
    answer of another shape, or of another number of decisions, is refused before it is saved: the
    question stays open. An edited call is judged again; what policy denies stays denied, and what is
    not any more what was asked about is not run.
    """
    asked = {call_id: each for call_id, each in state["verdicts"].items() if each["decision"] == "ask"}
    answer = interrupt(_request(asked), response_schema=_response(list(asked.values()), policy.grammar))
    judge = policy.judge(state, runtime)
    verdicts = dict(state["verdicts"])
    messages: list[AnyMessage] = []
    grants: dict[str, GrantRecord] = {}
    for (call_id, question), decision in zip(asked.items(), answer.decisions, strict=True):
        verdict = _decided(call_id, question, decision, judge)
        verdicts[call_id] = verdict
        grants[call_id] = _grant(call_id, verdict, decision, judge)
        if verdict["decision"] == "deny":
            messages.append(refusal(call_id, question["tool"], verdict["reason"]))
    refused = count_refusals(state, [verdicts[call_id] for call_id in asked])
    return AgentUpdate(verdicts=verdicts, grants=grants, messages=messages, refused=refused)


def _request(asked: Mapping[str, VerdictRecord]) -> HITLRequest:
    return HITLRequest(
        action_requests=[
            ActionRequest(name=each["tool"], args=each["args"], description=each["reason"])
            for each in asked.values()
        ],
        review_configs=[
            ReviewConfig(
                action_name=name,
                allowed_decisions=["approve", "reject"]
                if name == LOAD_SKILL
                else ["approve", "edit", "reject"],
            )
            for name in dict.fromkeys(each["tool"] for each in asked.values())
        ],
    )


def _response(asked: Sequence[VerdictRecord], grammar: Grammar) -> type[Any]:
    """Return the schema of the answer: exactly one decision a question, by position, with grants that fit."""
    exactly = Field(min_length=len(asked), max_length=len(asked))
    fitting = AfterValidator(partial(_with_fitting_grants, asked, grammar))
    return create_model(
        "HITLResponse", __base__=Answer, decisions=(Annotated[list[Decision], exactly, fitting], ...)
    )


def _with_fitting_grants(
    asked: Sequence[VerdictRecord], grammar: Grammar, decisions: list[Approve | Edit | Reject]
) -> list[Approve | Edit | Reject]:
    for question, decision in zip(asked, decisions, strict=True):
        if isinstance(decision, Approve) and decision.grant is not None:
            call = grammar.call(question["tool"], question["args"])
            if fault := grant_fault(decision.grant.scope, decision.grant.pattern, call, grammar):
                raise ValueError(fault)
    return decisions


def _decided(
    call_id: str, question: VerdictRecord, decision: Approve | Edit | Reject, judge: Judge
) -> VerdictRecord:
    decided = VerdictRecord(**{**question, "by": "approval", "decision": "allow", "reason": "approved"})
    if isinstance(decision, Reject):
        said = f": {decision.message}" if decision.message else "."
        decided["decision"] = "deny"
        decided["reason"] = f"Not run: a person rejected this call{said}"
    elif "digest" in question and judge.digest(_call(call_id, question)) != question["digest"]:
        decided["decision"], decided["by"] = "deny", "error"
        decided["reason"] = changed_text(question["tool"])
    elif isinstance(decision, Edit):
        action = decision.edited_action
        decided["tool"], decided["args"], decided["reason"] = action.name, action.args, "edited"
        decided["digest"] = judge.digest(_call(call_id, decided))
        decided["skill"] = judge.skill_of(_call(call_id, decided))
        again = judge.verdict(_call(call_id, decided))
        if again.decision == "deny":
            decided["decision"], decided["reason"], decided["by"] = "deny", again.reason, again.by
    return decided


def _grant(
    call_id: str, verdict: VerdictRecord, decision: Approve | Edit | Reject, judge: Judge
) -> GrantRecord:
    wish = decision.grant if isinstance(decision, Approve) and verdict["decision"] == "allow" else None
    call = _call(call_id, verdict)
    return GrantRecord(
        id=call_id,
        scope=wish.scope if wish else "call",
        tool=verdict["tool"],
        decision=decision.type,
        args=verdict["args"],
        message=decision.message if isinstance(decision, Reject) else "",
        revoked=False,
        pattern=(wish.pattern or "") if wish else "",
        skill=judge.skill_of(call),
        user=judge.user,
        contents=judge.contents(call) if wish and wish.scope != "call" else {},
        digest=verdict.get("digest", ""),
    )


def _call(call_id: str, verdict: VerdictRecord) -> ToolCall:
    return tool_call(name=verdict["tool"], args=verdict["args"], id=call_id)
