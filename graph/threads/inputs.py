"""What comes into a thread from outside, in the forms that LangGraph takes: inputs, commands, updates."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langgraph.types import Command, Send, StateSnapshot, StateUpdate

from skills_agent.graph.threads.errors import GotoError, InputKeysError, ThreadError
from skills_agent.state.claims import is_claim, messages_in, without_claims
from skills_agent.state.reducers import flatten
from skills_agent.state.schema import AgentState
from skills_agent.state.whole_text import with_whole_text

logger = logging.getLogger(__name__)

_SENT: Mapping[str, Sequence[str]] = {
    "act": ("name", "args", "id"),
    "load": ("call_id", "skills", "notes"),
}
"""The nodes that work with what is sent to them, not with the channels, and what that has at least."""


def read_input(given: Any) -> Any:
    """Return an input or a command in which every text is whole, and messages are messages.

    LangGraph applies an input at each look at the state of the step that it begins: what a client wrote as
    `("user", "hi")` would be read as often. Raises InputKeysError for an input of which nothing would arrive:
    LangGraph drops the keys that it does not know, and the agent would answer what nobody asked. Raises
    GotoError for a command to a node: beside `discover` it would run twice, or fail whenever it is resumed.
    """
    if isinstance(given, Command) and given.goto:
        _check_goto(given.goto if isinstance(given.goto, Sequence) else [given.goto])
    if isinstance(given, dict) and given and not given.keys() & AgentState.__annotations__.keys():
        raise InputKeysError(keys=[*map(str, given)])
    whole = with_whole_text(given)
    if not isinstance(whole, dict) or not isinstance(whole.get("messages"), list):
        return whole
    return {**whole, "messages": flatten(whole["messages"])}


def _check_goto(places: Sequence[Any] | str) -> None:
    for place in [places] if isinstance(places, str) else places:
        node, sent = (place.node, place.arg) if isinstance(place, Send) else (place, None)
        holder = sent.get("call") if isinstance(sent, Mapping) and node == "act" else sent
        # A node that is only named would run beside `discover`, and the model be asked twice.
        if not isinstance(holder, Mapping) or not holder.keys() >= {*_SENT.get(node, ())}:
            raise GotoError(node=str(node))


def makes_claims(given: Any) -> bool:
    """Return whether an input or an update brings messages other than a person's own words.

    Raises ThreadError for a message that LangChain would fail at whenever the thread is resumed.
    """
    brought = [value for name, value in _writes(given) if name == "messages"]
    for message in (message for value in brought for message in messages_in(value)):
        for block in message.content if isinstance(message.content, list) else ():
            if not isinstance(block, str) and not isinstance(kind := block.get("type", ""), str):
                raise ThreadError(
                    f"The type of a part of a message's content is a name, not {repr(kind)[:100]}. "
                    'As it should be: {"type": "text", "text": "..."}.'
                )
    return any(map(is_claim, brought))


def believed(given: Any, snapshot: StateSnapshot | None) -> Any:
    """Return an input or an update that says nothing about the calls of its thread (`state/claims.py`)."""
    if not makes_claims(given):
        return given
    transcript = (snapshot.values.get("messages") if snapshot else None) or []
    writes = [*_writes(given)]
    brought = [message for name, value in writes if name == "messages" for message in messages_in(value)]
    messages = without_claims(brought, transcript)
    # A parent graph sends the whole history at every turn: what is in the thread as it is was not left out.
    known = {message.id: message for message in transcript}
    echoes = sum(is_claim(message) and known.get(message.id) == message for message in brought)
    if (left_out := len(brought) - len(messages) - echoes) > 0:
        logger.warning("%d messages of an input are not believed, and were left out", left_out)
    kept = [*((name, value) for name, value in writes if name != "messages"), ("messages", messages)]
    return replace(given, update=kept) if isinstance(given, Command) else dict(kept)


def all_make_no_claims(supersteps: Sequence[Sequence[StateUpdate]]) -> bool:
    """Return whether `believed_updates` would change nothing."""
    return not any(makes_claims(update.values) for superstep in supersteps for update in superstep)


def believed_updates(
    supersteps: Sequence[Sequence[StateUpdate]], snapshot: StateSnapshot
) -> list[list[StateUpdate]]:
    """Return the updates of `update_state` that say nothing about the calls of their thread."""
    return [
        [update._replace(values=believed(update.values, snapshot)) for update in superstep]
        for superstep in supersteps
    ]


def _writes(given: Any) -> Iterable[tuple[str, Any]]:
    update = given.update if isinstance(given, Command) else given
    if isinstance(update, Mapping):
        return update.items()
    is_command = isinstance(given, Command) and isinstance(update, list | tuple)
    return cast("Iterable[tuple[str, Any]]", update) if is_command else ()
