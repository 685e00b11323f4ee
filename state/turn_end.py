"""The end of a turn: what the thread holds of its answer."""

from langchain_core.messages import AIMessage

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


def _text_of(message: AIMessage | None) -> str:
    """Return the text as every saver can keep it: PostgreSQL's takes this channel for JSON.

    That has no NUL, which can be in what a model repeats of a file.
    """
    return str(message.text).replace("\x00", "") if message else ""
