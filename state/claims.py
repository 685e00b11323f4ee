"""What a client says about calls and results: nothing that this agent believes.

Messages come with the input of a run, with `Command(update=...)` and with `update_state`. Agent Chat UI
answers every open call by itself ("Successfully handled tool call.") where a person types over a question;
others send the whole history again, or an invented one.
"""

from collections.abc import Mapping, Sequence
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
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

from skills_agent.state.call_ids import known_ids, with_new_ids
from skills_agent.state.reducers import flatten
from skills_agent.state.transcript import has_results, marks_of

_RESULT_BLOCKS: Final = ("tool_result", "function_call_output", "custom_tool_call_output", "tool_call_output")
"""Types of blocks of content that providers take for the result of a call, in a person's message as well."""

_OVERWRITE: Final = "__overwrite__"
"""How JSON says `Overwrite`."""
REPORTED: Final = "[The caller of this run reports this result. This agent has no record of it.]"


def messages_in(value: Any) -> list[BaseMessage]:
    """Return the messages of a write; one that replaces the transcript begins with their removal."""
    is_bare = isinstance(value, Mapping) and value.keys() == {_OVERWRITE}
    if not isinstance(value, Overwrite) and not is_bare:
        return flatten(value)
    whole = value[_OVERWRITE] if is_bare else value.value
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *flatten(whole)]


def is_claim(value: Any) -> bool:
    """Return whether a write brings messages other than a person's own words."""
    return any(map(_is_claim, messages_in(value)))


def without_claims(brought: Sequence[BaseMessage], transcript: Sequence[AnyMessage]) -> list[BaseMessage]:
    """Return messages as they are added to a transcript: they say nothing about the calls in it.

    A result of a call that the client did not bring itself is left out, and so is a message in place of one
    of the model's or of a tool's: what is known of a call is told when the turn begins. A result of a call
    that it did bring stays, marked: in a thread that is not kept, the caller alone knows what was before. The
    ids of such calls are replaced where the thread knows them.
    """
    messages = {message.id: message for message in transcript if message.id}
    call_ids = known_ids(transcript)
    waiting: dict[str, list[str]] = {}
    kept: list[BaseMessage] = []
    for message in brought:
        if isinstance(message, RemoveMessage):
            messages = {} if message.id == REMOVE_ALL_MESSAGES else messages
            messages.pop(message.id or "", None)
            kept.append(message)
            continue
        is_known = message.id is not None and message.id in messages
        if isinstance(message, AIMessage):
            waiting = {}
            if is_known:
                continue
            own = with_new_ids(message, call_ids.__contains__)
            for old, new in zip(_calls(message), _calls(own), strict=True):
                waiting.setdefault(old, []).append(new)
                call_ids.add(new)
            message = own  # noqa: PLW2901 - the same message with other ids
        elif isinstance(message, ToolMessage):
            if is_known or not waiting.get(message.tool_call_id):
                continue
            message = _marked(message, waiting[message.tool_call_id].pop(0))  # noqa: PLW2901
        elif _is_older_result(message):
            continue
        else:
            waiting = {}
            message = _without_results(message)  # noqa: PLW2901
        kept.append(message)
    return kept


def with_origin(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return messages as a model reads them: a result that is a client's word says so."""
    if not has_results(messages):
        return list(messages)
    return [
        _with_note(each) if isinstance(each, ToolMessage) and marks_of(each).get("reported") else each
        for each in messages
    ]


def _with_note(message: AnyMessage) -> AnyMessage:
    content = message.content
    noted = f"{REPORTED}\n{content}" if isinstance(content, str) else [REPORTED, *content]
    return message.model_copy(update={"content": noted})


def _is_claim(message: BaseMessage) -> bool:
    if isinstance(message, AIMessage | ToolMessage) or _is_older_result(message):
        return True
    return message is not _without_results(message)


def _is_older_result(message: BaseMessage) -> bool:
    """Return whether a message is a result in a form that names no call."""
    is_role = isinstance(message, ChatMessage) and message.role in {"tool", "function"}
    return is_role or isinstance(message, FunctionMessage)


def _calls(message: AIMessage) -> list[str]:
    return [call["id"] or "" for call in (*message.tool_calls, *message.invalid_tool_calls)]


def _marked(message: ToolMessage, call_id: str) -> ToolMessage:
    marks = {**message.additional_kwargs, "skills_agent": {**marks_of(message), "reported": True}}
    return message.model_copy(update={"additional_kwargs": marks, "tool_call_id": call_id})


def _without_results(message: BaseMessage) -> BaseMessage:
    if not isinstance(message.content, list):
        return message
    kept = [each for each in message.content if isinstance(each, str) or not _is_result(each)]
    return message if len(kept) == len(message.content) else message.model_copy(update={"content": kept})


def _is_result(block: Mapping[str, Any]) -> bool:
    # LangChain's form for what it does not know, which goes to the provider as it is.
    inside = block.get("value") if block.get("type") == "non_standard" else block
    return isinstance(inside, Mapping) and inside.get("type") in _RESULT_BLOCKS
