"""Requests: a message of a person that is sent again is the same turn, not a second one.

The id of the message is the id of the request. Clients of LangGraph's server send one with every message, and
send it again where they do not know whether it arrived.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.types import StateSnapshot

from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.inputs import messages_in
from skills_agent.graph.threads.thread import status_of
from skills_agent.state.transcript import calls_of, is_synthetic


class Turn(NamedTuple):
    """What became of a request."""

    is_over: bool
    """Answered, or superseded by a later message; else it was cut off, or waits for a person."""
    messages: Sequence[AnyMessage]
    """The transcript up to the end of its turn."""
    is_newest: bool
    """The channels are those of this turn."""

    @property
    def answer(self) -> str:
        """Return the answer; empty where a later message superseded the turn."""
        last = self.messages[-1]
        is_final = isinstance(last, AIMessage) and not calls_of(last) and not is_synthetic(last)
        return str(last.text) if is_final else ""

    def values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the channels of a thread as this turn left what it said."""
        if self.is_newest:
            return dict(values)
        left = {"structured_response": None} if "structured_response" in values else {}
        return {**values, **left, "messages": list(self.messages), "answer": self.answer}


def request_in(given: Any) -> HumanMessage | None:
    """Return the message that an input asks something with; None if it has no id, or also removes some."""
    try:
        messages = messages_in(given.get("messages") if isinstance(given, Mapping) else None)
    except (NotImplementedError, ValueError):  # no messages: LangGraph says so
        return None
    newest = next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
    removes = any(isinstance(message, RemoveMessage) for message in messages)
    return newest if newest and newest.id and not removes else None


def turn_of(request: HumanMessage, snapshot: StateSnapshot) -> Turn | None:
    """Return what became of a request in a thread; None for a new one.

    Raises ThreadError where its id is that of another message of the thread.
    """
    messages: list[AnyMessage] = snapshot.values.get("messages") or []
    at = next((at for at, each in enumerate(messages) if each.id == request.id), None)
    if at is None:
        return None
    if not isinstance(messages[at], HumanMessage) or _text(messages[at]) != _text(request):
        thread = snapshot.config["configurable"]["thread_id"]
        raise ThreadError(
            f"Thread {thread!r} has another message with the id {str(request.id)!r}. The same request may be "
            "sent again; another one needs an id of its own.",
            code="request-id-used",
        )
    later = (number for number in range(at + 1, len(messages)) if isinstance(messages[number], HumanMessage))
    end = next(later, None)
    is_over = end is not None or status_of(snapshot) == "done"
    return Turn(is_over, messages[:end], is_newest=end is None)


def _text(message: AnyMessage) -> str:
    """Return what is compared: what was stored may lack what no person says, or half a character."""
    return str(message.text).encode(errors="replace").decode()
