"""Where a turn ends and the next one begins: what the thread holds of its answer."""

from itertools import takewhile

from langchain_core.messages import AIMessage, HumanMessage

from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import last_ai, wants_calls


def ended(state: AgentState, message: AIMessage | None) -> AgentUpdate:
    """Return the update that ends a turn with a message of the model."""
    return AgentUpdate(answer=_text_of(message), loaded=sorted(active_skills(state.get("skills_loaded"))))


def is_ended(state: AgentState) -> bool:
    """Return whether the newest message of the model is the answer of the turn.

    It is not where somebody else wrote that message (`update_state`).
    """
    messages = state["messages"]
    return not wants_calls(messages) and state.get("answer") == _text_of(last_ai(messages))


def begins_turn(state: AgentState) -> bool:
    """Return whether the newest message asks something, and no turn is under way.

    The beginning of a turn empties the answer, and its end writes it. After a turn that ended with no text
    this cannot be told, and it is False.
    """
    messages = state.get("messages") or []
    return bool(messages) and isinstance(messages[-1], HumanMessage) and state.get("answer") != ""


def next_turn(state: AgentState) -> int:
    """Return the number of the turn that begins: no two have the same.

    A turn whose first step failed is in no count; its message stands before the new one.
    """
    usage, newest = state.get("usage"), reversed(state.get("messages") or [])
    asked = sum(1 for _ in takewhile(lambda each: isinstance(each, HumanMessage), newest))
    return (usage["turn"] if usage else 0) + (max(1, asked) if begins_turn(state) else 1)


def _text_of(message: AIMessage | None) -> str:
    """Return the text as every saver can keep it: PostgreSQL's takes this channel for JSON.

    That has no NUL, which can be in what a model repeats of a file.
    """
    return str(message.text).replace("\x00", "") if message else ""
