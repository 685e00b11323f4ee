"""What providers ask of the messages of a prompt. Pure.

OpenAI, Anthropic and Gemini refuse a request over one message of it, and a thread that holds such a message
would be refused for ever: the caller brings messages of any order and kind. tests/strict_providers.py has
the rules, each with its source.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    ToolMessage,
)

from skills_agent.state.call_ids import portable_id, with_ids
from skills_agent.state.endings import NOTE
from skills_agent.state.transcript import SYNTHETIC, is_synthetic, note_of

NO_TEXT: Final = "[This message has no text.]"
BEFORE_A_REPLY: Final = "[Nothing was said before this reply.]"
"""Stands where a caller brings a reply that follows nothing: Gemini refuses it."""
GO_ON: Final = "Go on."
"""Stands where a prompt would end with a reply, or hold nothing at all: hardly a server takes one."""
STOPPED: Final = "I stopped here."
"""Stands between a result and the next message of a person, for templates that want a reply there."""
CALLERS_NOTE: Final = "A note from the operator of this conversation, not from the user:\n{}"

_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What OpenAI takes for the name of who speaks; others do not read it."""


def leading_system(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the system messages that a transcript begins with."""
    return [*takewhile(_is_system, messages)]


def conversation(messages: Sequence[AnyMessage], own_name: str = "") -> list[AnyMessage]:
    """Return messages as every provider takes them, after one system message: roles alternate.

    A system message among them becomes a marked note: Anthropic has no place for it, and Gemini would move
    it to the head. Results follow their calls at once. No text is blank. What the agent said in the model's
    place, for people, is left out: a model that reads it says it, too. The name of who speaks stays where
    providers take it; `own_name` is that of this agent, which a model need not be told.
    """
    made: list[AnyMessage] = []
    for message in _results_first(messages):
        taken = _taken(message, own_name)
        if taken is None:
            continue
        if made and made[-1].type == taken.type != "tool":
            made[-1] = _merged(made[-1], taken)
            continue
        if taken.type == "ai" and not made:
            made.append(HumanMessage(BEFORE_A_REPLY, additional_kwargs=dict(SYNTHETIC)))
        made.append(taken)
    if not made or made[-1].type == "ai":
        made.append(HumanMessage(GO_ON, additional_kwargs=dict(SYNTHETIC)))
    return made


def with_words(messages: Sequence[AnyMessage], text: str) -> list[AnyMessage]:
    """Return messages with a text at the end of the last one, or behind a reply: roles alternate."""
    last = messages[-1] if messages else None
    if not isinstance(last, HumanMessage | ToolMessage):
        return [*messages, HumanMessage(text)]
    return [*messages[:-1], last.model_copy(update={"content": joined_content(last.content, text)})]


def as_template_takes(prompt: Sequence[AnyMessage], refused: Collection[str]) -> list[AnyMessage]:
    """Return a prompt without what a server's chat template has refused: "system", "roles", "ids"."""
    made: list[AnyMessage] = []
    for message in prompt:
        before = made[-1].type if made else ""
        if "system" in refused and message.type == "system":
            kwargs = dict(SYNTHETIC)
            message = HumanMessage(message.content, additional_kwargs=kwargs)  # noqa: PLW2901 - the same text
        if "roles" in refused and (before, message.type) == ("tool", "human"):
            made.append(AIMessage(STOPPED))
        if before == message.type == "human":
            made[-1] = _merged(made[-1], message)
        else:
            made.append(_with_portable_ids(message) if "ids" in refused else message)
    return made


def _merged(one: AnyMessage, other: AnyMessage) -> AnyMessage:
    """Return two messages of one role as one, which tells who said what where that is not the same one."""
    name = one.name if one.name == other.name else None
    of_one = "" if name else one.name
    is_users = other.type == "human" and is_synthetic(one) and not is_synthetic(other)
    of_other = (not name and other.name) or ("The user" if is_users else "")
    said = [
        joined_content(f"{who}:" if who else "", each.content)
        for who, each in ((of_one, one), (of_other, other))
    ]
    kept = {**other.additional_kwargs, **one.additional_kwargs}
    update = {"content": joined_content(*said), "name": name, "additional_kwargs": kept}
    if isinstance(one, AIMessage) and isinstance(other, AIMessage):
        update["tool_calls"] = [*one.tool_calls, *other.tool_calls]
    return other.model_copy(update=update)


def joined_content(first: Any, second: Any) -> Any:
    """Return the contents of two messages as that of one: a text where both are."""
    if isinstance(first, str) and isinstance(second, str):
        return "\n\n".join(filter(None, (first, second)))
    return [*blocks_of(first), *blocks_of(second)]


def blocks_of(content: Any) -> list[Any]:
    """Return the content of a message as blocks."""
    parts = [content] if isinstance(content, str) else content
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts if part]


def _with_portable_ids(message: AnyMessage) -> AnyMessage:
    if isinstance(message, ToolMessage):
        return message.model_copy(update={"tool_call_id": portable_id(message.tool_call_id)})
    if isinstance(message, AIMessage) and message.tool_calls:
        return with_ids(message, [portable_id(call["id"] or "") for call in message.tool_calls])
    return message


def _results_first(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """Yield what came between calls and their results after the results."""
    waiting: set[str | None] = set()
    held: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.discard(message.tool_call_id)
            yield message
        elif isinstance(message, AIMessage):
            yield from held
            held.clear()
            waiting = {call["id"] for call in message.tool_calls}
            yield message
        elif waiting:
            held.append(message)
            continue
        else:
            yield message
        if held and not waiting:
            yield from held
            held.clear()
    yield from held


def _taken(message: AnyMessage, own_name: str) -> AnyMessage | None:
    if _is_system(message):
        text = str(message.text).strip()
        note = CALLERS_NOTE.format(text)
        return HumanMessage(note, id=message.id, additional_kwargs=dict(SYNTHETIC)) if text else None
    if message.type == "chat" and isinstance(message, ChatMessage):
        of_role = AIMessage if message.role in {"assistant", "ai", "model"} else HumanMessage
        message = of_role(message.content, id=message.id)
    is_answer = message.type == "ai" and isinstance(message, AIMessage) and not message.tool_calls
    if is_answer and is_synthetic(message):
        return None
    update: dict[str, Any] = {}
    if (name := message.name) and message.type != "tool":
        is_told = name != own_name and _NAME.fullmatch(name)
        update = {} if is_told else {"name": None}
    content: Any = _without_note(message.content) if is_answer else message.content
    if isinstance(content, list) and all(_is_plain(each) for each in content):
        content = "\n".join(each if isinstance(each, str) else each["text"] for each in content)
    blocks = [content] if isinstance(content, str) else content
    kept = [each for each in blocks if not _is_blank(each)]
    if not kept or len(kept) < len(blocks):
        content = kept or ("" if message.type in {"ai", "tool"} else NO_TEXT)
    if is_answer and not content:
        return None
    if content is not message.content:
        update["content"] = content
    return message.model_copy(update=update) if update else message


def _without_note(content: Any) -> Any:
    """Return the content of an answer without what people read at its end."""
    if isinstance(content, str):
        return NOTE.sub("", content).rstrip() if content.rstrip().endswith(".]") else content
    if content and isinstance(content[-1], dict) and content[-1].get("type") == "text":
        return [*content[:-1], {**content[-1], "text": _without_note(str(content[-1].get("text") or ""))}]
    return content


def _is_blank(block: str | Mapping[str, Any]) -> bool:
    if not isinstance(block, str):
        if block.get("type") != "text":
            return False
        block = str(block.get("text") or "")
    return not block.strip()


def _is_plain(block: str | Mapping[str, Any]) -> bool:
    return isinstance(block, str) or (block.keys() == {"type", "text"} and isinstance(block["text"], str))


def _is_system(message: AnyMessage) -> bool:
    kind = message.type
    return kind == "system" or (kind == "chat" and getattr(message, "role", "") in _SYSTEM_ROLES)


def with_notes(messages: Sequence[AnyMessage], note: str) -> list[AnyMessage]:
    """Return messages with what the agent said at the end of each that a reply answers, and of the last.

    A reply keeps the note that it was asked for with, so that every later prompt begins with the same bytes.
    """
    shown: list[AnyMessage] = []
    for message in (*messages, None):
        said = note if message is None else note_of(message) if isinstance(message, AIMessage) else ""
        shown = with_words(shown, said) if said else shown
        shown += [message] if message else []
    return shown
