"""Ids of tool calls, which are this agent's: one id is one call in the whole of a thread.

Answers, verdicts, grants, the journal and providers know a call by nothing else. What a server sends is often
no such thing: ids that start again in each reply, one id for two calls, none at all.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, InvalidToolCall, ToolMessage
from langchain_core.messages.tool import ToolCall

_LENGTH: Final = 9
"""Characters of a new id: Mistral takes nine letters and digits and nothing else. All others take them."""
_PORTABLE: Final = re.compile(rf"[a-zA-Z0-9]{{{_LENGTH}}}")
_MAX_LENGTH: Final = 200
"""Characters of an id that is kept; PostgreSQL indexes no long ones."""
_CALL_BLOCKS: Final = (
    "tool_use",
    "function_call",
    "custom_tool_call",
    "tool_call",
    "tool_call_chunk",
    "invalid_tool_call",
)
"""Types of blocks of a message's content that stand for a call: Anthropic, OpenAI's Responses, LangChain."""


class _Renamed(NamedTuple):
    call: Mapping[str, Any]
    new: str

    @property
    def old(self) -> str:
        return self.call["id"] or ""


def with_own_ids(
    reply: AIMessage, transcript: Sequence[AnyMessage], is_taken: Callable[[str], bool] = lambda _: False
) -> AIMessage:
    """Return a model's reply with ids that its thread does not know; the same message where they are so.

    `is_taken` says whether an id means something else beside the transcript. A message whose own id is known
    loses it: it would replace the other one.
    """
    if reply.id and reply.id in {each.id for each in transcript}:
        reply = reply.model_copy(update={"id": None})
    known = known_ids(transcript)
    return with_new_ids(reply, lambda call_id: call_id in known or is_taken(call_id))


def known_ids(messages: Iterable[AnyMessage]) -> set[str]:
    """Return the ids of all calls of a transcript, and of all answers in it."""
    ids: set[str] = set()
    for message in messages:
        if isinstance(message, AIMessage):
            ids |= {call["id"] or "" for call in all_calls(message)}
        elif isinstance(message, ToolMessage):
            ids.add(message.tool_call_id)
    return ids


def all_calls(message: AIMessage) -> list[ToolCall | InvalidToolCall]:
    """Return the calls of a message, those that cannot be read last."""
    return [*message.tool_calls, *message.invalid_tool_calls]


def with_new_ids(message: AIMessage, is_known: Callable[[str], bool]) -> AIMessage:
    """Return a message in which every call has a plain id that is neither repeated nor known.

    The new ids depend on the message alone. What a provider wrote of a call beside the list of calls (blocks
    of content, `additional_kwargs`) goes back to it, so it is changed as well.
    """
    ids: list[str] = []
    used: set[str] = set()
    for number, call in enumerate(all_calls(message)):
        new, attempt = call["id"] or "", 0
        while not _is_plain(new) or new in used or is_known(new):
            new = _new_id(message, call, number, attempt)
            attempt += 1
        used.add(new)
        ids.append(new)
    return with_ids(message, ids)


def with_ids(message: AIMessage, ids: Sequence[str]) -> AIMessage:
    """Return a message whose calls, those that cannot be read last, have these ids."""
    renamed = [_Renamed(call, new) for call, new in zip(all_calls(message), ids, strict=True)]
    if all(each.old == each.new for each in renamed):
        return message
    new_calls = [{**each.call, "id": each.new} for each in renamed]
    valid = len(message.tool_calls)
    content: Any = message.content
    if isinstance(content, list):
        content = _rewritten(content, renamed, lambda block: block.get("type") in _CALL_BLOCKS)
    update = {
        "content": content,
        "tool_calls": new_calls[:valid],
        "invalid_tool_calls": new_calls[valid:],
        "additional_kwargs": _rewritten_extras(message.additional_kwargs, renamed),
    }
    return message.model_copy(update=update)


def _is_plain(call_id: str) -> bool:
    """Return whether an id can be a key in every database, and a part of a line."""
    return 0 < len(call_id) <= _MAX_LENGTH and call_id.isprintable()


def _new_id(message: AIMessage, call: Mapping[str, Any], number: int, attempt: int) -> str:
    return derived_id(message.id, call["name"], call["args"], number, attempt)


def portable_id(call_id: str) -> str:
    """Return an id as every server takes it, always the same for the same one."""
    return call_id if _PORTABLE.fullmatch(call_id) else _hashed(call_id)


def derived_id(*parts: Any) -> str:
    """Return an id that depends on these parts alone, as every server takes it."""
    return _hashed(json.dumps(parts, default=str))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_LENGTH]


def _rewritten(
    parts: Sequence[Any], renamed: Sequence[_Renamed], is_call: Callable[[Mapping[str, Any]], bool]
) -> list[Any]:
    """Return what a provider wrote of some calls, one part a call, with their new ids."""
    left, rewritten = list(renamed), list[Any]()
    for part in parts:
        if isinstance(part, Mapping) and is_call(part):
            key = "call_id" if "call_id" in part else "id"  # The Responses API has an id of the part, too.
            if found := _of_part(part, str(part.get(key) or ""), left):
                left.remove(found)
                part = {**part, key: found.new}  # noqa: PLW2901 - the same part with another id
        rewritten.append(part)
    return rewritten


def _of_part(part: Mapping[str, Any], old: str, left: Sequence[_Renamed]) -> _Renamed | None:
    """Return the call that a part stands for: of several with its id, the first with its arguments."""
    function = part.get("function") or part
    written = (function.get(name) for name in ("arguments", "args", "input"))
    arguments = _plain(next((each for each in written if each is not None), None))
    alike = [each for each in left if each.old == old]
    exact = (each for each in alike if _plain(each.call["args"]) == arguments)
    return next(exact, alike[0] if alike else None)


def _plain(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            return json.loads(arguments)
        except ValueError:
            return arguments
    return arguments


def _rewritten_extras(extras: Mapping[str, Any], renamed: Sequence[_Renamed]) -> dict[str, Any]:
    """Return `additional_kwargs` with the new ids: in OpenAI's list of calls, and where they are keys.

    Gemini's thought signatures and the ids of the Responses API stand under the ids of their calls.
    """
    changed: dict[str, list[str]] = {}
    for each in renamed:
        changed.setdefault(each.old, []).append(each.new)
    rewritten: dict[str, Any] = {}
    for name, value in extras.items():
        if name == "tool_calls" and isinstance(value, list):
            rewritten[name] = _rewritten(value, renamed, lambda _: True)
        elif isinstance(value, Mapping) and not changed.keys().isdisjoint(value):
            rewritten[name] = {
                new: kept for old, kept in value.items() for new in changed.get(str(old), [str(old)])
            }
        else:
            rewritten[name] = value
    return rewritten
