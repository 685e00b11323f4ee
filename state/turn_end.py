"""Where a turn ends and the next one begins: what the thread holds of its answer."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import last_ai, wants_calls


def ended(state: AgentState, message: AnyMessage | None, structured: Any = None) -> AgentUpdate:
    """Return the update that ends a turn with a message of the model, or with a tool's result.

    `structured` is the answer in the host's form, as plain values.
    """
    update = AgentUpdate(answer=_text_of(message), loaded=sorted(active_skills(state.get("skills_loaded"))))
    if structured is not None:
        update["structured_response"] = structured
    return update


def is_ended(state: AgentState) -> bool:
    """Return whether the newest message of the model, or a tool's result after it, is the turn's answer.

    It is not where somebody else wrote that message (`update_state`).
    """
    messages = state["messages"]
    newest = messages[-1] if messages and isinstance(messages[-1], ToolMessage) else last_ai(messages)
    return not wants_calls(messages) and state.get("answer") == _text_of(newest)


def direct_result(messages: Sequence[AnyMessage], is_direct: Callable[[str], bool]) -> ToolMessage | None:
    """Return the result that is the answer: the last one, where all of this step come from such tools.

    One that failed is for the model, and so is a step that also called something else.
    """
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        if message.status != "success" or not is_direct(message.name or ""):
            return None
        results.append(message)
    return results[0] if results else None


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


def _text_of(message: AnyMessage | None) -> str:
    """Return the text as every saver can keep it: PostgreSQL's takes this channel for JSON.

    That has no NUL, which can be in what a model repeats of a file.
    """
    return str(message.text).replace("\x00", "") if message else ""
