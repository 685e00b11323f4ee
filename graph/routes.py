"""Where next. Each function is named after the node it leaves, and depends on nothing but the state."""

import asyncio
from typing import Literal

from langchain_core.messages.tool import ToolCall
from langgraph.runtime import Runtime
from langgraph.types import Send

from skills_agent.nodes.fitting import Schemas
from skills_agent.nodes.model_call import Models
from skills_agent.nodes.select import may_ask_for_skills
from skills_agent.state.budget import Limits, refused_too_often, spent_budget
from skills_agent.state.context import Context
from skills_agent.state.history import turns_to_cover
from skills_agent.state.records import SkillPlace
from skills_agent.state.schema import AgentState, CallRequest
from skills_agent.state.transcript import (
    LOAD_SKILL,
    alike_calls,
    open_calls,
    open_unreadable_calls,
    wants_skills,
    wants_tools,
)


def after_discover(
    state: AgentState, runtime: Runtime[Context], *, models: Models, schemas: Schemas
) -> Literal["summarize", "select", "decide"]:
    """Sum up older turns first where the history takes too much of the model's window."""
    window = models.choose(Context.of(runtime.context).model).window
    return "summarize" if turns_to_cover(state, window, schemas.all) else after_summarize(state)


async def after_discover_async(
    state: AgentState, runtime: Runtime[Context], *, models: Models, schemas: Schemas
) -> Literal["summarize", "select", "decide"]:
    """Do the same without stopping the event loop while a model is made."""
    if models.is_made(Context.of(runtime.context).model):
        return after_discover(state, runtime, models=models, schemas=schemas)
    return await asyncio.to_thread(after_discover, state, runtime, models=models, schemas=schemas)


def after_summarize(state: AgentState) -> Literal["select", "decide"]:
    """Select where anything may ask for a skill; most turns begin without, and a step costs a checkpoint."""
    return "select" if may_ask_for_skills(state) else "decide"


def after_select(state: AgentState) -> list[Send | Literal["approve", "gate", "decide"]]:
    """Load what was admitted, one branch a request, and ask where that is set; else go on as after a load."""
    asked = state.get("verdicts") or {}
    ways: list[Send | Literal["approve", "gate", "decide"]] = [
        Send("load", admission) for admission in state["admissions"] if admission["call_id"] not in asked
    ]
    if _is_open(state):
        ways.append("approve")
    return ways or [*after_load(state)]


def after_load(state: AgentState) -> list[Literal["gate", "decide"]]:
    """Judge the other calls of the message that asked for the skill, if it had any.

    While a question of this step is open, its branch leads on.
    """
    if _is_open(state):
        return []
    return ["gate" if wants_tools(state["messages"]) else "decide"]


def after_decide(
    state: AgentState, runtime: Runtime[Context], *, limits: Limits
) -> Literal["select", "gate", "answer"]:
    """Follow the model's calls while the budgets last."""
    messages = state["messages"]
    wants_more = open_calls(messages) or open_unreadable_calls(messages)
    if not wants_more or spent_budget(state, Context.of(runtime.context).narrow(limits)):
        return "answer"
    return "select" if wants_skills(messages) else "gate"


def after_gate(state: AgentState) -> list[Send | Literal["approve", "decide", "answer"]]:
    """Run what is allowed, ask about what is not, at the same time; go on if all was refused."""
    ways: list[Send | Literal["approve", "decide", "answer"]] = [*_allowed(state, by_approval=False)]
    if _is_open(state):
        ways.append("approve")
    return ways or [_after_refusals(state)]


def after_approve(state: AgentState) -> list[Send | Literal["decide", "answer"]]:
    """Run what a person approved or edited; go on if all was rejected."""
    return [*_allowed(state, by_approval=True)] or [_after_refusals(state)]


def _after_refusals(state: AgentState) -> Literal["decide", "answer"]:
    """End the turn where the model repeats a call that is refused again and again."""
    return "answer" if refused_too_often(state) else "decide"


def after_act(state: AgentState) -> list[Literal["decide"]]:
    """Join: go on, unless a question of this step is still open: then its branch leads on.

    LangGraph's deferred nodes cannot join here: they start while a `Send` is still to be run.
    """
    return [] if _is_open(state) else ["decide"]


def _is_open(state: AgentState) -> bool:
    return any(verdict["decision"] == "ask" for verdict in (state.get("verdicts") or {}).values())


def _allowed(state: AgentState, *, by_approval: bool) -> list[Send]:
    sends = []
    for call_id, verdict in state["verdicts"].items():
        if verdict["decision"] != "allow" or (verdict["by"] == "approval") != by_approval:
            continue
        if verdict["tool"] == LOAD_SKILL:
            sends += [Send("load", each) for each in state["admissions"] if each["call_id"] == call_id]
            continue
        call = ToolCall(name=verdict["tool"], args=verdict["args"], id=call_id, type="tool_call")
        edited = verdict["reason"] == "edited"
        request = CallRequest(
            call=call,
            turn=state["usage"]["turn"],
            edited=edited,
            approved=_approved(state, call_id),
            skill=_place(state, verdict.get("skill", verdict["args"].get("skill"))),
            earlier=alike_calls(state["messages"], call),
        )
        sends.append(Send("act", request))
    return sends


def _approved(state: AgentState, call_id: str) -> str:
    """Return the digest of what was approved or allowed: a person's record of it, else the gate's.

    Records of older versions have none. An approval that no person gave is one of nothing.
    """
    verdict = state["verdicts"][call_id]
    if verdict["by"] != "approval":
        return verdict.get("digest", "")
    grant = (state.get("grants") or {}).get(call_id)
    return grant.get("digest", "") if grant and grant["decision"] != "reject" else "nothing"


def _place(state: AgentState, name: object) -> SkillPlace | None:
    loaded = (state.get("skills_loaded") or {}).get(name) if isinstance(name, str) else None
    if loaded is None or loaded["unloaded"]:
        return None
    return SkillPlace(name=loaded["name"], source=loaded["source"], path=loaded["path"])
