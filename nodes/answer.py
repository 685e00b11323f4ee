"""answer: the end of a turn."""

import logging
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from skills_agent.nodes import prompt
from skills_agent.nodes.model_call import ModelRequests, Steps, usage_of
from skills_agent.nodes.reply import as_arrived
from skills_agent.state.budget import MAX_SAME_REFUSALS
from skills_agent.state.call_ids import with_own_ids
from skills_agent.state.context import Context
from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import last_ai, refused_too_often, repair, wants_calls

logger = logging.getLogger(__name__)


def answer(state: AgentState, runtime: Runtime[Context], *, requests: ModelRequests) -> Steps[AgentUpdate]:
    """End a turn.

    When the model is done, its text is the answer. When a budget is spent while the model wants more
    calls, or it repeats a refused call, its calls are answered as not run, and it is asked once more,
    without tools.
    """
    messages = state["messages"]
    loaded = sorted(active_skills(state.get("skills_loaded")))
    reason = _reason(messages, state.get("spent_budget"))
    if not reason:
        newest = last_ai(messages)
        return AgentUpdate(answer=_storable(str(newest.text)) if newest else "", loaded=loaded)
    answered = repair(messages, f"Not run: {reason}.") or messages
    known = {id(each) for each in messages}
    skills = requests.shown_skills(state, runtime)
    status = prompt.last_word_text(reason)
    reply = yield from requests.ask(state, runtime, answered, skills, status, hidden=None)
    logger.warning("turn cut short", extra={"reason": reason})
    final = with_own_ids(_without_calls(reply.message, reason), answered)
    return AgentUpdate(
        messages=[*(each for each in answered if id(each) not in known), final],
        answer=_storable(str(final.text)),
        loaded=loaded,
        **usage_of(state, reply),
    )


def _storable(text: str) -> str:
    """Return a text that every saver can keep: PostgreSQL's takes this channel for JSON.

    That has no NUL, which can be in what a model repeats of a file.
    """
    return text.replace("\x00", "")


def _reason(messages: Sequence[AnyMessage], spent_budget: str | None) -> str:
    if wants_calls(messages):
        return f"the budget of {spent_budget or 'steps'} for this turn is spent"
    tool = refused_too_often(messages)
    return f"the same call of {tool} was refused {MAX_SAME_REFUSALS} times" if tool else ""


def _without_calls(message: AIMessage, reason: str) -> AIMessage:
    """Return the message as a final one: no call in it would ever be answered."""
    if message.text.strip() and not message.tool_calls and not message.invalid_tool_calls:
        return message
    text = str(message.text).strip() or f"I stopped: {reason}."
    final = AIMessage(text, id=message.id, usage_metadata=message.usage_metadata)
    final.response_metadata = message.response_metadata
    return as_arrived(final)
