"""Where next: one function for each node, named after the node that it leaves.

A route depends on the state alone. It returns labels, which `build.py` maps to nodes and Studio shows on
the edges, or `Send`s, which name their node themselves.
"""

from typing import Any, Literal

from langgraph.types import Send

from skills_agent.nodes.select import may_ask_for_skills
from skills_agent.nodes.verdicts import call_request
from skills_agent.state.records import Admission
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import (
    LOAD_SKILL,
    refused_too_often,
    wants_calls,
    wants_skills,
    wants_tools,
)

AfterSummarize = Literal["a skill is asked for", "no skill asked for"]
AfterRefusals = Literal["denied", "denied again and again"]


def after_discover(state: AgentState) -> Literal["history too long"] | AfterSummarize:
    """Summarize older turns first where the history takes too much of the model's window."""
    return "history too long" if state.get("history_too_long") else after_summarize(state)


def after_summarize(state: AgentState) -> AfterSummarize:
    """Select where anything may ask for a skill. Most turns begin without, and a step costs a checkpoint."""
    return "a skill is asked for" if may_ask_for_skills(state) else "no skill asked for"


def after_select(state: AgentState) -> list[Send | Any]:
    """Load what was admitted, or run it by itself, one branch a request; ask a person where that is set."""
    verdicts = state.get("verdicts") or {}
    ways: list[Send | Any] = [
        _taken(admission) for admission in _admissions(state) if admission["call_id"] not in verdicts
    ]
    if _has_open_question(state):
        ways.append("the skill has changed")
    if not ways and wants_tools(state["messages"]):
        ways.append("other calls wait")
    return ways or ["denied again and again" if refused_too_often(state["messages"]) else "nothing to load"]


def after_load(state: AgentState) -> list[Literal["other calls wait", "loaded"]]:
    """Judge the other calls of the message that the skill was loaded for, if there are any.

    While a question of this step is open, the branch with the question leads on.
    """
    if _has_open_question(state):
        return []
    return ["other calls wait" if wants_tools(state["messages"]) else "loaded"]


def after_decide(
    state: AgentState,
) -> Literal["wants a skill", "calls a tool", "is done or out of budget"]:
    """Follow the model's calls while the budgets last; a message without calls is the answer."""
    if not wants_calls(state["messages"]) or state.get("spent_budget"):
        return "is done or out of budget"
    return "wants a skill" if wants_skills(state["messages"]) else "calls a tool"


def after_gate(state: AgentState) -> list[Send | Any]:
    """Run what is allowed, ask about what is not, at the same time; go on if all was denied."""
    ways: list[Send | Any] = [*_allowed(state, by_approval=False)]
    if _has_open_question(state):
        ways.append("needs a person")
    return ways or [_after_refusals(state)]


def after_approve(state: AgentState) -> list[Send | AfterRefusals]:
    """Run what a person approved or edited; go on if all was rejected."""
    return [*_allowed(state, by_approval=True)] or [_after_refusals(state)]


def after_fork(state: AgentState) -> list[Literal["other calls wait", "done"]]:
    """Go on as after a load, or after a call: what a fork answers may be either."""
    if _has_open_question(state):
        return []
    return ["other calls wait" if wants_tools(state["messages"]) else "done"]


def after_act(state: AgentState) -> list[Literal["done"]]:
    """Ask the model again. While a question of this step is open, the branch with the question leads on.

    LangGraph's deferred nodes cannot join here: they start while a `Send` is still to be run.
    """
    return [] if _has_open_question(state) else ["done"]


def _after_refusals(state: AgentState) -> AfterRefusals:
    return "denied again and again" if refused_too_often(state["messages"]) else "denied"


def _has_open_question(state: AgentState) -> bool:
    return any(verdict["decision"] == "ask" for verdict in (state.get("verdicts") or {}).values())


def _taken(admission: Admission) -> Send:
    return Send("fork" if "fork" in admission else "load", admission)


def _admissions(state: AgentState) -> list[Admission]:
    """Return what `select` admitted; it did not run where a client writes the state in its name."""
    return state.get("admissions") or []


def _allowed(state: AgentState, *, by_approval: bool) -> list[Send]:
    sends = []
    for call_id, verdict in (state.get("verdicts") or {}).items():
        if verdict["decision"] != "allow" or (verdict["by"] == "approval") != by_approval:
            continue
        if verdict["tool"] == LOAD_SKILL:
            sends += [
                _taken(admission) for admission in _admissions(state) if admission["call_id"] == call_id
            ]
            continue
        sends.append(Send("fork" if verdict.get("fork") else "act", call_request(state, call_id)))
    return sends
