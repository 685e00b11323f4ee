"""Text that is whole: what UTF-8, and so a provider, a database and a terminal, can write.

Python and JSON can hold half of a character, a surrogate without the other one: of bytes that are no UTF-8,
of `\\ud800` in JSON, or of an emoji that a server split between two parts of a reply.
"""

import re
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from langchain_core.messages import BaseMessage
from langgraph.types import Command

Value = TypeVar("Value")

_HALF: Final = re.compile("[\ud800-\udfff]")
_MAX_DEPTH: Final = 100
"""What is nested deeper is left as it is."""
_ARTIFACT: Final = "artifact"
"""The field of a tool message that may hold any object, and that no model and no person is shown."""


def whole_text(text: str) -> str:
    """Return a text with both halves of a character as one, and U+FFFD for a half that is alone."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def with_whole_text(value: Value) -> Value:
    """Return a value in which every text is whole: a message, a Command, or what JSON knows."""
    return cast("Value", _whole(value, _MAX_DEPTH))


def _whole(value: Any, depth: int) -> Any:  # noqa: PLR0911 - one a kind
    match value:
        case str():
            return whole_text(value)
        case list() | tuple() | dict() | BaseMessage() | Command() if depth == 0:
            return value
        case list():
            return [_whole(each, depth - 1) for each in value]
        case tuple() if type(value) is tuple:
            return tuple(_whole(each, depth - 1) for each in value)
        case dict():
            return {_whole(name, depth - 1): _whole(each, depth - 1) for name, each in value.items()}
        case Command():
            update, resume = _whole(value.update, depth - 1), _whole(value.resume, depth - 1)
            return replace(value, update=update, resume=resume)
        case BaseMessage():
            stated = {name: each for name, each in vars(value).items() if name != _ARTIFACT}
            changed = {name: new for name, each in stated.items() if (new := _whole(each, depth - 1)) != each}
            return value.model_copy(update=changed) if changed else value
    return value
