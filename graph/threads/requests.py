"""Requests: a message of a person that is sent again is the same turn, not a second one.

The id of the message is the id of the request. Clients of LangGraph's server send one with every message, and
send it again where they do not know whether it arrived.
"""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.types import StateSnapshot

from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.inputs import messages_in
from skills_agent.graph.threads.thread import status_of
from skills_agent.state.transcript import calls_of, is_synthetic


def request_in(given: Any) -> HumanMessage | None:
    """Return the message that an input asks something with; None if it has no id, or also removes some."""
    try:
        messages = messages_in(given.get("messages") if isinstance(given, Mapping) else None)
    except (NotImplementedError, ValueError):  # no messages: LangGraph says so
        return None
    newest = next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
    removes = any(isinstance(message, RemoveMessage) for message in messages)
    return newest if newest and newest.id and not removes else None


def is_known(request: HumanMessage, snapshot: StateSnapshot) -> bool:
    """Return whether a thread has a request already.

    Raises ThreadError where its id is that of another message of the thread.
    """
    known = next((message for message in _messages(snapshot) if message.id == request.id), None)
    if known is not None and (not isinstance(known, HumanMessage) or _text(known) != _text(request)):
        thread = snapshot.config["configurable"]["thread_id"]
        raise ThreadError(
            f"Thread {thread!r} has another message with the id {str(request.id)!r}. The same request may be "
            "sent again; another one needs an id of its own.",
            code="request-id-used",
        )
    return known is not None


def values_after(request: HumanMessage, snapshot: StateSnapshot) -> dict[str, Any] | None:
    """Return the channels of a thread as the turn of a known request left what it said.

    None for a turn that is not over: it was cut off, or waits for a person. A turn that a later message
    superseded has no answer.
    """
    messages = _messages(snapshot)
    at = [message.id for message in messages].index(request.id)
    later = (place for place in range(at + 1, len(messages)) if isinstance(messages[place], HumanMessage))
    if (end := next(later, None)) is None:
        return dict(snapshot.values) if status_of(snapshot) == "done" else None
    last = messages[end - 1]
    is_final = isinstance(last, AIMessage) and not calls_of(last) and not is_synthetic(last)
    left = {"structured_response": None} if "structured_response" in snapshot.values else {}
    answer = str(last.text) if is_final else ""
    return {**snapshot.values, **left, "messages": messages[:end], "answer": answer}


def _messages(snapshot: StateSnapshot) -> list[AnyMessage]:
    return snapshot.values.get("messages") or []


def _text(message: AnyMessage) -> str:
    """Return what is compared: what was stored may lack what no person says, or half a character."""
    return str(message.text).encode(errors="replace").decode()
