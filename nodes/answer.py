"""answer: the end of a turn."""

import logging

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from skills_agent.nodes import prompt
from skills_agent.nodes.model_call import Asking, ModelRequests, TwoPaths, model_node, usage_of
from skills_agent.state.budget import MAX_SAME_REFUSALS, refused_too_often
from skills_agent.state.context import Context
from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import (
    calls_of,
    last_ai,
    open_calls,
    open_unreadable_calls,
    refusal,
    wants_calls,
)

logger = logging.getLogger(__name__)


def answer(*, requests: ModelRequests) -> TwoPaths:
    """Return the node that ends a turn.

    When the model is done, its text is the answer. When a budget is spent while the model wants more
    calls, or it repeats a refused call, its calls are answered as not run, and it is asked once more,
    without tools.
    """

    def ask(state: AgentState, runtime: Runtime[Context]) -> Asking:
        loaded = _loaded(state)
        reason = _reason(state)
        if not reason:
            newest = last_ai(state["messages"])
            return AgentUpdate(answer=_storable(str(newest.text)) if newest else "", **loaded)
        calls = [*open_calls(state["messages"]), *open_unreadable_calls(state["messages"])]
        refusals = [refusal(call["id"] or "", call["name"] or "", f"Not run: {reason}.") for call in calls]
        messages = [*state["messages"], *refusals]
        skills = requests.shown_skills(state, runtime)
        status = prompt.last_word_text(reason)
        message = yield from requests.ask(state, runtime, messages, skills, status, hidden=None)
        logger.warning("turn cut short", extra={"reason": reason})
        final = _without_calls(message, reason)
        return AgentUpdate(
            messages=[*refusals, final],
            answer=_storable(str(final.text)),
            **loaded,
            **usage_of(state, message),
        )

    return model_node("answer", ask, requests.models)


def _loaded(state: AgentState) -> AgentUpdate:
    """Return the names of the loaded skills, where they differ from those of the last turn."""
    loaded = sorted(active_skills(state.get("skills_loaded")))
    return AgentUpdate() if loaded == state.get("loaded") else AgentUpdate(loaded=loaded)


def _storable(text: str) -> str:
    """Return a text that every saver can keep: PostgreSQL's takes this channel for JSON.

    That has no NUL and no half of a surrogate pair; both can be in what a model repeats of a file.
    """
    return text.replace("\x00", "").encode(errors="replace").decode()


def _reason(state: AgentState) -> str:
    """Return why the turn is cut short; empty where the model is done."""
    if wants_calls(state["messages"]):
        return f"the budget of {state.get('spent_budget') or 'steps'} for this turn is spent"
    tool = refused_too_often(state)
    return f"the same call of {tool} was refused {MAX_SAME_REFUSALS} times" if tool else ""


def _without_calls(message: AIMessage, reason: str) -> AIMessage:
    """Return the message as a final one: no call in it would ever be answered."""
    text = str(message.text).strip() or f"I stopped: {reason}."
    if not calls_of(message) and not message.invalid_tool_calls and message.text:
        return message
    return AIMessage(text, id=message.id, usage_metadata=message.usage_metadata)
