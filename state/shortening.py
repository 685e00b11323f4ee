"""Messages and texts made shorter. Pure; what is left out is counted in the text itself."""

import re
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from skills_agent.state.window import size_of

_AGAIN = "; the call can be made again for a part of it, if it only reads"
_NOTE: Final = 160
"""Bytes that the note on what is left out takes at most."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")


def brief(text: str, limit: int) -> str:
    """Return the beginning of a text on one line: whole sentences where one ends in the second half."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    head = line[: max(limit - 2, 0)]
    ends = [match.end() for match in _SENTENCE_END.finditer(head)]
    if ends and ends[-1] >= limit // 2:
        return f"{head[: ends[-1]]} …"
    return head.rstrip() + "…"


def excerpt(text: str, size: int, hint: str = "") -> str:
    """Return beginning and end of a text in about `size` bytes, and between them how much is left out."""
    total = size_of(text)
    if total <= size + _NOTE:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    head = raw[: size * 2 // 3].decode("utf-8", "ignore")
    tail = raw[total - size // 3 :].decode("utf-8", "ignore")
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[{left_out} of {len(text)} characters are left out here to save room{hint}]\n{tail}"


def shortened(message: AnyMessage, size: int) -> AnyMessage:
    """Return a message whose texts take about `size` bytes each: content, and a call's arguments.

    Ids, names and the number of calls stay. Of content blocks, only texts are shortened.
    """
    hint = _AGAIN if isinstance(message, ToolMessage) else ""
    update: dict[str, Any] = {"content": _content(message.content, size, hint)}
    if isinstance(message, AIMessage):
        update["tool_calls"] = [_call(call, size) for call in message.tool_calls]
        update["invalid_tool_calls"] = [
            {**call, "args": call["args"] and excerpt(call["args"], size)}
            for call in message.invalid_tool_calls
        ]
    return message.model_copy(update=update)


def _content(content: str | list[str | dict[Any, Any]], size: int, hint: str) -> Any:
    if isinstance(content, str):
        return excerpt(content, size, hint)
    return [_block(block, size, hint) for block in content]


def _block(block: str | dict[Any, Any], size: int, hint: str) -> str | dict[Any, Any]:
    if isinstance(block, str):
        return excerpt(block, size, hint)
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return {**block, "text": excerpt(block["text"], size, hint)}
    return block


def _call(call: ToolCall, size: int) -> ToolCall:
    return {**call, "args": {name: _value(value, size) for name, value in call["args"].items()}}


def _value(value: Any, size: int) -> Any:
    if isinstance(value, str):
        return excerpt(value, size)
    if isinstance(value, list):
        return [_value(each, size) for each in value]
    if isinstance(value, dict):
        return {key: _value(each, size) for key, each in value.items()}
    return value
