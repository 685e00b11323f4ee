"""The boundary: what a client writes into a thread, in the forms that LangGraph takes.

A client writes messages, names skills, and answers open questions. All other channels, and the next node, are
the agent's own, so nothing behind this file asks who wrote a verdict, a grant or an entry of the ledger.

Messages come with the input of a run, with `Command(update=...)` and with `update_state`, and say nothing
about the calls of the thread. Agent Chat UI answers every open call by itself ("Successfully handled tool
call.") where a person types over a question; others send the whole history again, or an invented one.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.errors import InvalidUpdateError
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite, StateSnapshot, StateUpdate

from skills_agent.graph.threads.errors import ThreadError
from skills_agent.skills.errors import DetailedError, list_names
from skills_agent.state.call_ids import all_calls, known_ids, with_new_ids
from skills_agent.state.reducers import flatten
from skills_agent.state.schema import AgentInput, AgentState
from skills_agent.state.transcript import marks_of
from skills_agent.state.whole_text import with_whole_text

logger = logging.getLogger(__name__)

CLIENTS: Final = frozenset(AgentInput.__annotations__)
"""The channels that a client writes."""
REPORTED: Final = "[The caller of this run reports this result. This agent has no record of it.]"

Supersteps = Sequence[Sequence[StateUpdate]]
_RESULT_BLOCKS: Final = ("tool_result", "function_call_output", "custom_tool_call_output", "tool_call_output")
"""Types of blocks of content that providers take for the result of a call, in a person's message as well."""
_OVERWRITE: Final = "__overwrite__"
"""How JSON says `Overwrite`."""


class ClientWriteError(DetailedError, ThreadError, InvalidUpdateError):
    """A client writes what is the agent's own to write. Nothing was run, and nothing was written.

    LangGraph's server shows the sentence of its own InvalidUpdateError alone, with status 400.
    """

    code = "client-write"
    sentence = (
        "A client writes `messages` and `skills`, and answers open questions. Nothing was done, because the "
        "agent alone writes: {given}."
    )
    given: str


def read_input(given: Any, *, is_inner: bool) -> Any:
    """Return an input or a command in which every text is whole, and messages are messages.

    LangGraph applies an input at each look at the state of the step that it begins: what a client wrote as
    `("user", "hi")` would be read as often. A graph around this one (`is_inner`) hands on its whole state, of
    which LangGraph takes a client's channels. Raises ClientWriteError, and ThreadError for an input of
    which nothing would arrive: LangGraph drops the keys that it does not know, and the agent would answer
    what nobody asked.
    """
    if isinstance(given, Command):
        _check_values(given)
    elif given is not None and not isinstance(given, dict):
        given = _fields(given)
    elif given and not given.keys() & AgentState.__annotations__.keys():
        raise ThreadError(
            "The graph takes the keys `messages` and `skills`, and the input has neither, but: "
            f'{list_names([*map(str, given)])}. To ask something: {{"messages": [("user", "...")]}}.',
            code="input-keys-unknown",
        )
    elif given and not is_inner:
        _check_values({name: value for name, value in given.items() if name in AgentState.__annotations__})
    whole = with_whole_text(given)
    if not isinstance(whole, dict) or not isinstance(whole.get("messages"), list):
        return whole
    return {**whole, "messages": flatten(whole["messages"])}


def check_updates(supersteps: Supersteps) -> None:
    """Raise ClientWriteError where updates of the state write what a client does not write.

    Whatever node they name: that says which route is taken, and routes depend on what the agent wrote.
    """
    for superstep in supersteps:
        for update in superstep:
            _check_values(update.values)


def _check_values(values: Any) -> None:
    if isinstance(values, Command):
        if values.goto:
            raise ClientWriteError(given="the next node")
        is_pairs = isinstance(values.update, list | tuple) and all(map(_is_pair, values.update))
        values = dict(_writes(values)) if is_pairs else values.update
    if values is not None and not isinstance(values, Mapping):
        # A list holds commands, or updates of a copied checkpoint; an object may be a `Send`.
        raise ClientWriteError(given=f"an object of the type {type(values).__name__}")
    if others := sorted(str(name) for name in values or () if name not in CLIENTS):
        raise ClientWriteError(given=", ".join(others))


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _fields(given: Any) -> dict[str, Any]:
    """Return the client's channels of the state of a graph around this one, which may be of any class."""
    fields = {name: getattr(given, name) for name in sorted(CLIENTS) if getattr(given, name, None)}
    if not fields:
        raise ClientWriteError(given=f"an object of the type {type(given).__name__}")
    return fields


def makes_claims(given: Any) -> bool:
    """Return whether an input or an update brings messages other than a person's own words.

    Raises ThreadError for a message that LangChain would fail at whenever the thread is resumed.
    """
    brought = _brought(given)
    for message in brought:
        for block in message.content if isinstance(message.content, list) else ():
            if not isinstance(block, str) and not isinstance(kind := block.get("type", ""), str):
                raise ThreadError(
                    f"The type of a part of a message's content is a name, not {repr(kind)[:100]}. "
                    'As it should be: {"type": "text", "text": "..."}.'
                )
    return any(map(_is_claim, brought))


def believed(given: Any, snapshot: StateSnapshot | None) -> Any:
    """Return an input or an update that says nothing about the calls of its thread."""
    if not makes_claims(given):
        return given
    transcript = (snapshot.values.get("messages") if snapshot else None) or []
    kept = {name: value for name, value in _writes(given) if name != "messages"}
    kept["messages"] = [*_without_claims(_brought(given), transcript)]
    return replace(given, update=kept) if isinstance(given, Command) else kept


def believed_updates(supersteps: Supersteps, snapshot: StateSnapshot) -> Supersteps:
    """Return updates of the state that say nothing about the calls of their thread."""
    return [
        [update._replace(values=believed(update.values, snapshot)) for update in superstep]
        for superstep in supersteps
    ]


def messages_in(value: Any) -> list[BaseMessage]:
    """Return the messages of a write; one that replaces the transcript begins with their removal."""
    is_bare = isinstance(value, Mapping) and value.keys() == {_OVERWRITE}
    if not isinstance(value, Overwrite) and not is_bare:
        return flatten(value)
    whole = value[_OVERWRITE] if is_bare else value.value
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *flatten(whole)]


def _brought(given: Any) -> list[BaseMessage]:
    return [message for name, value in _writes(given) if name == "messages" for message in messages_in(value)]


def _writes(given: Any) -> Iterable[tuple[str, Any]]:
    update = given.update if isinstance(given, Command) else given
    if isinstance(update, Mapping):
        return update.items()
    return update if isinstance(update, list | tuple) else ()


def _without_claims(
    brought: Sequence[BaseMessage], transcript: Sequence[AnyMessage]
) -> Iterator[BaseMessage]:
    """Yield messages as they are added to a transcript: they say nothing about the calls in it.

    A result of a call that the client did not bring itself is left out, and so is a message in place of one
    of the model's or of a tool's: what is known of a call is told when the turn begins. A result of a call
    that it did bring stays, and says whose word it is: in a thread that is not kept, the caller alone knows
    what was before. The ids of such calls are replaced where the thread knows them.
    """
    known = {message.id: message for message in transcript if message.id}
    call_ids = known_ids(transcript)
    waiting: dict[str, list[str]] = {}
    for message in brought:
        before = known.get(message.id or "")
        if isinstance(message, RemoveMessage):
            known = {} if message.id == REMOVE_ALL_MESSAGES else known
            known.pop(message.id or "", None)
            yield message
        elif isinstance(message, AIMessage):
            waiting = {}
            if before is not None:
                _log_left_out(message, before)
                continue
            own = with_new_ids(message, call_ids.__contains__)
            for old, new in zip(_calls(message), _calls(own), strict=True):
                waiting.setdefault(old, []).append(new)
                call_ids.add(new)
            yield own
        elif isinstance(message, ToolMessage):
            if before is not None or not waiting.get(message.tool_call_id):
                _log_left_out(message, before)
                continue
            yield _reported(message, waiting[message.tool_call_id].pop(0))
        elif _is_older_result(message):
            _log_left_out(message, before)
        else:
            waiting = {}
            yield _without_results(message)


def _log_left_out(message: BaseMessage, before: BaseMessage | None) -> None:
    # A graph around this one sends the whole history at every turn: what is there as it is says nothing new.
    if message != before:
        logger.warning("a message of an input is not believed, and was left out", extra={"is": message.type})


def _is_claim(message: BaseMessage) -> bool:
    if isinstance(message, AIMessage | ToolMessage) or _is_older_result(message):
        return True
    return message is not _without_results(message)


def _is_older_result(message: BaseMessage) -> bool:
    """Return whether a message is a result in a form that names no call."""
    is_role = isinstance(message, ChatMessage) and message.role in {"tool", "function"}
    return is_role or isinstance(message, FunctionMessage)


def _calls(message: AIMessage) -> list[str]:
    return [call["id"] or "" for call in all_calls(message)]


def _reported(message: ToolMessage, call_id: str) -> ToolMessage:
    """Return a result that says to the model whose word it is; one that came back says it already."""
    content = message.content
    if not message.text.startswith(REPORTED):
        content = f"{REPORTED}\n{content}" if isinstance(content, str) else [REPORTED, *content]
    marks = {**message.additional_kwargs, "skills_agent": {**marks_of(message), "reported": True}}
    update = {"content": content, "additional_kwargs": marks, "tool_call_id": call_id}
    return message.model_copy(update=update)


def _without_results(message: BaseMessage) -> BaseMessage:
    if not isinstance(message.content, list):
        return message
    kept = [each for each in message.content if isinstance(each, str) or not _is_result(each)]
    return message if len(kept) == len(message.content) else message.model_copy(update={"content": kept})


def _is_result(block: Mapping[str, Any]) -> bool:
    # LangChain's form for what it does not know, which goes to the provider as it is.
    inside = block.get("value") if block.get("type") == "non_standard" else block
    return isinstance(inside, Mapping) and inside.get("type") in _RESULT_BLOCKS
