"""How many tokens messages take of a model's context window. An estimate: there is no tokenizer here.

A token is taken as four bytes of UTF-8, which is near the truth for prose in most scripts; and a quarter
of the window is left free: for the answer, and for what takes more tokens than that (figures, code).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

BYTES_PER_TOKEN: Final = 4
FRAME: Final = 4
"""Tokens that a message takes beside its content."""
MEDIA: Final = 1500
"""Tokens of an image, a sound or a document: about what providers count for a large image."""

_MEDIA_TYPES = ("image", "input_image", "audio", "input_audio", "video", "file", "input_file", "document")


def room_of(window: int) -> int:
    """Return the tokens that a prompt, its tools included, may take of a window of so many."""
    return window * 3 // 4


def tokens_of(messages: Iterable[AnyMessage]) -> int:
    """Return about how many tokens messages take."""
    return sum(map(_tokens, messages))


def tokens_in(text: str) -> int:
    """Return about how many tokens a text has."""
    return -(-size_of(text) // BYTES_PER_TOKEN)


def size_of(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _tokens(message: AnyMessage) -> int:
    tokens = FRAME + (tokens_in(message.content) if isinstance(message.content, str) else 0)
    if isinstance(message.content, list):
        tokens += sum(map(_block_tokens, message.content))
    if isinstance(message, ToolMessage):
        tokens += tokens_in(message.tool_call_id)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            tokens += FRAME + tokens_in(f"{call['name']}{call['id']}{_json(call['args'])}")
        for broken in message.invalid_tool_calls:
            tokens += FRAME + tokens_in(f"{broken['name']}{broken['id']}{broken['args']}")
    return tokens


def _block_tokens(block: str | Mapping[str, Any]) -> int:
    if isinstance(block, str):
        return tokens_in(block)
    if str(block.get("type", "")).startswith(_MEDIA_TYPES):
        return MEDIA
    return tokens_in(block["text"] if isinstance(block.get("text"), str) else _json(block))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
