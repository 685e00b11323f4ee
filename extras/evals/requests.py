"""A request to a model as it is the same on every machine and on every day, and what changed in one."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from skills_agent.graph.audit.redaction import Redaction
from skills_agent.nodes.prompt_cache import CACHE_POINT

_IN_ORDER: Final = (
    (re.compile(r"(?:/[^\s\"'`<>:,()]*)?/skills-agent-eval-[A-Za-z0-9_]+"), "<place>"),
    (re.compile(r"\beval-\d{8}-\d{6}-[A-Za-z0-9._-]+"), "<thread>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\(\d+(?:\.\d+)? (?:ms|s), [a-z][a-z :.,-]*\)"), "(<took>)"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|seconds)\b"), "<took>"),
)
_CLOCK: Final = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
_MOST_LINES: Final = 24
_MOST_COMPARED: Final = 4_000
"""Lines of a request that are compared."""


class Normal:
    """Makes requests the same: folders of this machine, today's date, ids and durations have names."""

    def __init__(self, folders: Mapping[str, str], redaction: Redaction, now: datetime | None = None) -> None:
        """Take the names that absolute paths of this machine get, the longest path first."""
        now = now or datetime.now(UTC)
        self._folders = sorted(folders.items(), key=lambda each: -len(each[0]))
        self._redaction = redaction
        # A clock elsewhere is a day before or behind; a date of the data is no other than it is.
        days = {f"{now + timedelta(hours=hours):%Y-%m-%d}" for hours in (-12, 0, 14)}
        self._now = re.compile(rf"\b(?:{'|'.join(sorted(days))}){_CLOCK}")

    def request(self, messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a request as plain values, without secrets."""
        ids: dict[str, str] = {}
        shown = {
            "messages": [self._message(each, ids) for each in messages],
            "tools": [
                self._value(_as_function(_without_cache(tool))) for tool in tools if tool != CACHE_POINT
            ],
        }
        whole: dict[str, Any] = self._redaction.whole(shown)
        return whole

    def _message(self, message: BaseMessage, ids: dict[str, str]) -> dict[str, Any]:
        shown: dict[str, Any] = {"role": message.type, "content": self._value(_plain(message.content))}
        if isinstance(message, AIMessage) and message.tool_calls:
            for call in message.tool_calls:
                ids.setdefault(call["id"] or "", f"call-{len(ids) + 1}")
            shown["calls"] = [
                {"id": ids[call["id"] or ""], "name": call["name"], "args": self._value(call["args"])}
                for call in message.tool_calls
            ]
        if isinstance(message, ToolMessage):
            shown["call"] = ids.get(message.tool_call_id, "call")
        return shown

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(name)): self._value(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        return value

    def _text(self, text: str) -> str:
        for pattern, name in _IN_ORDER:
            text = pattern.sub(name, text)
        for folder, name in self._folders:
            text = text.replace(folder, name)
        return self._now.sub("<today>", text)


def key_of(request: Mapping[str, Any]) -> str:
    """Return what a request is known by."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def what_changed(request: Mapping[str, Any], recorded: Iterable[Mapping[str, Any]]) -> str:
    """Return the difference of a request to the nearest recorded one, as a short unified diff."""
    lines = _lines(request)
    known = [_lines(each) for each in recorded]
    if not known:
        return "Nothing is recorded."
    nearest = max(known, key=lambda each: _likeness(each, lines))
    parts = list(difflib.unified_diff(nearest, lines, "recorded", "now", n=1, lineterm=""))
    more = len(parts) - _MOST_LINES
    return "\n".join([*parts[:_MOST_LINES], *([f"... {more} more lines"] if more > 0 else [])])


def _likeness(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how alike two requests are: how much they share at their beginning and their end."""
    same = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    rest = min(len(one), len(other)) - same
    end = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    return same + end - 0.5 * abs(len(one) - len(other))


def _lines(request: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for message in request.get("messages") or ():
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        lines += [f"{message.get('role')}: {line}" for line in text.splitlines() or [""]]
        lines += [
            f"{message.get('role')} calls {json.dumps(each, ensure_ascii=False)}"
            for each in message.get("calls") or ()
        ]
    for tool in request.get("tools") or ():
        lines += [f"tool: {line}" for line in json.dumps(tool, indent=1, ensure_ascii=False).splitlines()]
    return lines[:_MOST_COMPARED]


def _plain(content: Any) -> Any:
    """Return content as text where it is one text, whatever form a provider has it in.

    Breakpoints of a prompt cache are left out: they say nothing to the model, and a replay has none.
    """
    if isinstance(content, list):
        parts = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
        blocks = [_without_cache(each) for each in parts if each != CACHE_POINT]
        if len(blocks) == 1 and isinstance(blocks[0], dict) and set(blocks[0]) == {"type", "text"}:
            return blocks[0]["text"]
        return blocks
    return content


def _as_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool in OpenAI's form, also one in Anthropic's: that of a breakpoint."""
    if "input_schema" not in tool:
        return tool
    function = {key: tool[key] for key in ("name", "description")} | {"parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _without_cache(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_cache(each) for name, each in value.items() if name != "cache_control"}
    return [_without_cache(each) for each in value] if isinstance(value, list) else value
