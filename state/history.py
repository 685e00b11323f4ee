"""What of a long transcript a prompt shows. Pure: nothing here changes the transcript.

A *turn* is a message of a person and all that follows it, up to the next one. docs/how-it-works.md has the
rules. Tokens are estimated at four bytes of UTF-8 each; langchain_core's estimate counts characters.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from skills_agent.state.call_ids import all_calls
from skills_agent.state.records import SummaryRecord, active_skills
from skills_agent.state.transcript import answers_by_step, calls_of, unreadable_calls_of

BYTES_PER_TOKEN: Final = 4
HIGH: Final = 0.8
"""Share of its room that the history may take when a turn begins."""
LOW: Final = 0.5
"""Share of its room that a summary and the turns after it take at most."""
FIXED: Final = 500
"""Tokens for the agent's instructions and load_skill: about the most that they take."""
EXCERPT: Final = 600
SHORTEST: Final = 60
"""Bytes that are shown of an older message in a turn that outgrows the window; the second where the first
is not enough."""

_FRAME: Final = 4
"""Tokens that a message takes beside its content."""
_MEDIA: Final = 1500
"""Tokens of an image, a sound or a document: about what providers count for a large image."""
_MEDIA_TYPES: Final = ("image", "audio", "video", "file", "document")
_NOTE: Final = 160
"""Bytes that the note on what is left out takes at most."""


class History(NamedTuple):
    """A transcript in two parts."""

    summary: SummaryRecord | None
    covered: Sequence[AnyMessage]
    """What the summary stands for."""
    messages: Sequence[AnyMessage]
    """What follows, and is shown as it is."""


def history_of(messages: Sequence[AnyMessage], summary: SummaryRecord | None) -> History:
    """Part a transcript where its summary ends.

    A summary whose last message was removed from the transcript is dropped: what was taken out of a thread
    must not stay in its summary.
    """
    if summary:
        for index, message in enumerate(messages):
            if message.id == summary["last"]:
                return History(summary, messages[: index + 1], messages[index + 1 :])
    return History(None, (), messages)


def turns_of(messages: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """Cut a transcript before each message of a person; what stands before the first belongs to its turn."""
    return _cut_before(messages, HumanMessage)


def _cut_before(
    messages: Sequence[AnyMessage], kind: type[HumanMessage] | type[AIMessage]
) -> list[list[AnyMessage]]:
    """Cut messages before each of a kind but the first, and never between a tool call and its answer."""
    answers = answers_by_step(messages)
    place = {id(each): at for at, each in enumerate(messages)}
    parts: list[list[AnyMessage]] = [[]]
    waiting_until = -1
    for index, message in enumerate(messages):
        has_one = any(isinstance(each, kind) for each in parts[-1])
        if has_one and isinstance(message, kind) and index > waiting_until:
            parts.append([])
        parts[-1].append(message)
        if isinstance(message, AIMessage):
            calls = {call["id"] for call in (*calls_of(message), *unreadable_calls_of(message))}
            own = (place[id(each)] for name, each in answers[index].items() if name in calls)
            waiting_until = max([waiting_until, *own])
    return parts if parts[0] else []


def room_of(window: int) -> int:
    """Return the tokens that a prompt, its tools included, may take of a window of so many.

    The rest is left free, for the answer and for what takes more tokens than estimated.
    """
    return window * 3 // 4


def summary_tokens(window: int) -> int:
    """Return the tokens that a summary may take of a window."""
    return min(2000, window // 16)


def room_for_history(state: Mapping[str, Any], window: int, schemas: int) -> int:
    """Return the tokens that are left for summary and transcript beside all else that a prompt shows.

    `schemas` are the tokens of the tools. An estimate: the prompt itself is measured when it is rendered.
    """
    active = active_skills(state.get("skills_loaded"))
    resources: Mapping[str, Any] = state.get("skill_resources") or {}
    files = [file["path"] for name in active for file in resources.get(name, {}).get("files", ())]
    texts = [*(skill["instructions"] for skill in active.values()), *files, str(state.get("plan") or "")]
    catalog: int = (state.get("catalog") or {}).get("size", 0) // BYTES_PER_TOKEN
    # A file's type and size take about four tokens beside its path.
    taken = FIXED + catalog + 4 * len(files) + sum(map(tokens_in, texts))
    return max(0, room_of(window) - schemas - taken)


def turns_to_cover(state: Mapping[str, Any], window: int, schemas: int) -> list[list[AnyMessage]]:
    """Return the turns that a new summary is to cover beside what it covers already; mostly none.

    The newest turn is never among them.
    """
    history = history_of(state.get("messages") or [], state.get("summary"))
    room = room_for_history(state, window, schemas)
    summary = tokens_in(history.summary["text"]) if history.summary else 0
    if tokens_of(history.messages) + summary <= HIGH * room:
        return []
    *older, newest = turns_of(history.messages) or [[]]
    left = LOW * room - summary_tokens(window) - tokens_of(newest)
    while older and (left := left - tokens_of(older[-1])) >= 0:
        older.pop()
    return older


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
    blocks = [message.content] if isinstance(message.content, str) else message.content
    tokens = _FRAME + sum(map(_block_tokens, blocks))
    if isinstance(message, AIMessage):
        for call in all_calls(message):
            tokens += _FRAME + tokens_in(f"{call['name']}{call['id']}{_json(call['args'])}")
    elif isinstance(message, ToolMessage):
        tokens += tokens_in(message.tool_call_id)
    return tokens


def _block_tokens(block: str | Mapping[str, Any]) -> int:
    if isinstance(block, str):
        return tokens_in(block)
    if str(block.get("type", "")).removeprefix("input_").startswith(_MEDIA_TYPES):
        return _MEDIA
    return tokens_in(block["text"] if isinstance(block.get("text"), str) else _json(block))


_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode


def fit(messages: Sequence[AnyMessage], room: int) -> list[AnyMessage]:
    """Return what a prompt shows of a transcript: the messages, or excerpts where `room` tokens are too few.

    The newest turn's request stays whole, so what is returned may still be too large.
    """
    if not messages or tokens_of(messages) <= room:
        return list(messages)
    turn = turns_of(messages)[-1]
    step = _cut_before(turn, AIMessage)[-1]
    older: list[AnyMessage] = list(messages[: len(messages) - len(step)])
    before_turn = len(messages) - len(turn)
    for_older = room - min(tokens_of(step), room // 2)
    # What is to be freed is rounded up: so the prompt of the next step begins with the same messages.
    unit = max(1, room // 4)
    for size in (EXCERPT, SHORTEST):
        excess = tokens_of(older) - for_older
        older = _excerpts(older, before_turn, -(-excess // unit) * unit, size)
    return [*older, *_share(step, room - tokens_of(older))]


def _excerpts(messages: list[AnyMessage], before_turn: int, to_free: int, size: int) -> list[AnyMessage]:
    """Cut messages to excerpts, the oldest first, until so many tokens are free.

    The requests that come after `before_turn` messages stay whole.
    """
    shown = list(messages)
    for index, message in enumerate(messages):
        if to_free <= 0:
            break
        if index < before_turn or not isinstance(message, HumanMessage):
            shown[index] = shortened(message, size)
            to_free -= tokens_of([message]) - tokens_of([shown[index]])
    return shown


def _share(step: list[AnyMessage], room: int) -> list[AnyMessage]:
    shown = step
    size = max(room, 0) * BYTES_PER_TOKEN
    while tokens_of(shown) > room and size > EXCERPT:
        shown = [shortened(each, size) if isinstance(each, ToolMessage) else each for each in step]
        size = size * 9 // 10
    if tokens_of(shown) > room:
        shown = [each if isinstance(each, HumanMessage) else shortened(each, EXCERPT) for each in step]
    return shown


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
    """Return a message whose texts take about `size` bytes each: content, and a call's arguments."""
    if isinstance(message, SystemMessage):
        return message
    again = "; the call can be made again for a part of it, if it only reads"
    hint = again if isinstance(message, ToolMessage) else ""
    content: Any = message.content
    if isinstance(content, list):
        is_text = [isinstance(block, str) or block.get("type") == "text" for block in content]
        content = [_cut(b, size, hint) if text else b for b, text in zip(content, is_text, strict=True)]
    update: dict[str, Any] = {"content": _cut(content, size, hint) if isinstance(content, str) else content}
    if isinstance(message, AIMessage):
        for calls in ("tool_calls", "invalid_tool_calls"):
            update[calls] = [{**call, "args": _cut(call["args"], size)} for call in getattr(message, calls)]
    return message.model_copy(update=update)


def _cut(value: Any, size: int, hint: str = "") -> Any:
    if isinstance(value, str):
        return excerpt(value, size, hint)
    if isinstance(value, list):
        return [_cut(each, size, hint) for each in value]
    if isinstance(value, dict):
        return {key: _cut(each, size, hint) for key, each in value.items()}
    return value
