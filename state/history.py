"""What of a long transcript a prompt shows. Pure: nothing here changes the transcript.

A *turn* is a message of a person and all that follows it, up to the next one. At the beginning of a turn,
older turns are replaced by a summary when the history takes more than `HIGH` of its room, and then down to
`LOW`: so the beginning of the prompt stays the same for many turns. Within a turn, which may outgrow
the window by itself, `fit` shows older messages shortened. A tool call is never parted from its answer.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from skills_agent.state.ledger import active_skills
from skills_agent.state.records import SummaryRecord
from skills_agent.state.shortening import brief, shortened
from skills_agent.state.transcript import SYNTHETIC, calls_of, is_synthetic, unreadable_calls_of
from skills_agent.state.window import BYTES_PER_TOKEN, room_of, size_of, tokens_in, tokens_of

HIGH: Final = 0.8
"""Share of its room that the history may take when a turn begins."""
LOW: Final = 0.5
"""Share of its room that a summary and the turns after it take at most."""
FIXED: Final = 1000
"""Tokens for the agent's instructions, load_skill and the status: about the most that they take."""
EXCERPT: Final = 600
"""Bytes that are shown of an older message in a turn that outgrows the window."""

_NOTE: Final = 70
"""Tokens that a shortened message takes beside its excerpt, at most."""
_FULLER: Final = 5
"""So many of the newest turns are told more fully in an extract."""


class History(NamedTuple):
    """A transcript in two parts."""

    summary: SummaryRecord | None
    covered: Sequence[AnyMessage]
    """What the summary stands for."""
    messages: Sequence[AnyMessage]
    """What follows, and is shown as it is."""


def history_of(messages: Sequence[AnyMessage], summary: SummaryRecord | None) -> History:
    """Part a transcript where its summary ends.

    A summary whose last message was removed from the transcript is dropped: what somebody took out of a
    thread must not go on speaking from its summary.
    """
    if summary:
        for index, message in enumerate(messages):
            if message.id == summary["last"]:
                return History(summary, messages[: index + 1], messages[index + 1 :])
    return History(None, (), messages)


def turns_of(messages: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """Cut a transcript before each message of a person; never between a tool call and its answer."""
    turns: list[list[AnyMessage]] = []
    for part in _cut_before(messages, HumanMessage):
        if turns and not any(isinstance(message, HumanMessage) for message in turns[-1]):
            turns[-1].extend(part)  # what stands before the first message of a person belongs to its turn
        else:
            turns.append(part)
    return turns


def _cut_before(
    messages: Sequence[AnyMessage], kind: type[HumanMessage] | type[AIMessage]
) -> list[list[AnyMessage]]:
    answers = {each.tool_call_id: at for at, each in enumerate(messages) if isinstance(each, ToolMessage)}
    parts: list[list[AnyMessage]] = []
    waiting_until = -1
    for index, message in enumerate(messages):
        if not parts or (isinstance(message, kind) and index > waiting_until):
            parts.append([])
        parts[-1].append(message)
        if isinstance(message, AIMessage):
            calls = [*calls_of(message), *unreadable_calls_of(message)]
            waiting_until = max([waiting_until, *(answers.get(call["id"] or "", -1) for call in calls)])
    return parts


def room_for_history(state: Mapping[str, Any], window: int, schemas: int) -> int:
    """Return the tokens that are left for summary and transcript beside all else that a prompt shows.

    `schemas` are the tokens of the tools. An estimate: the prompt itself is measured when it is rendered.
    """
    active = active_skills(state.get("skills_loaded"))
    resources: Mapping[str, Any] = state.get("skill_resources") or {}
    skills = sum(tokens_in(skill["instructions"]) for skill in active.values())
    files = sum(
        tokens_in(file["path"]) + BYTES_PER_TOKEN
        for name in active
        for file in resources.get(name, {}).get("files", ())
    )
    catalog: int = (state.get("catalog") or {}).get("size", 0) // BYTES_PER_TOKEN
    plan = tokens_in(str(state.get("plan") or ""))
    return max(0, room_of(window) - schemas - FIXED - skills - files - catalog - plan)


def summary_tokens(window: int) -> int:
    """Return the tokens that a summary may take of a window."""
    return min(2000, window // 16)


def turns_to_cover(state: Mapping[str, Any], window: int, schemas: int) -> list[list[AnyMessage]]:
    """Return the turns that a new summary is to cover beside what it covers already; mostly none.

    The newest turn is never among them.
    """
    history = history_of(state.get("messages") or [], state.get("summary"))
    room = room_for_history(state, window, schemas)
    told = tokens_in(history.summary["text"]) if history.summary else 0
    if tokens_of(history.messages) + told <= HIGH * room:
        return []
    *older, newest = turns_of(history.messages) or [[]]
    left = LOW * room - summary_tokens(window) - tokens_of(newest)
    while older and (left := left - tokens_of(older[-1])) >= 0:
        older.pop()
    return older


def extract(turns: Sequence[Sequence[AnyMessage]], size: int) -> str:
    """Sum up turns without a model, in at most `size` bytes: a line a turn, the newest the fullest.

    A line holds the request, the tools that were used, and the beginning of the answer. The newest turns
    share one half of the size, the others the other. What does not fit is counted.
    """
    full = min(500, size // (4 * _FULLER))
    others = max(60, min(150, size // (4 * max(1, len(turns) - _FULLER))))
    lines: list[str] = []
    left = size - len(_omitted(len(turns)))
    for age, turn in enumerate(reversed(turns)):
        line = _turn_in_brief(turn, full if age < _FULLER else min(full, others))
        left -= size_of(line) + 1
        if left < 0:
            break
        lines.append(line)
    if omitted := len(turns) - len(lines):
        lines.append(_omitted(omitted))
    return "\n".join(reversed(lines))


def _omitted(turns: int) -> str:
    return f"[{turns} turns before these are left out]"


def _turn_in_brief(turn: Sequence[AnyMessage], limit: int) -> str:
    asked = " ".join(str(message.text) for message in turn if isinstance(message, HumanMessage))
    said = [str(message.text) for message in turn if isinstance(message, AIMessage) and message.text]
    parts = [f"- Asked: {brief(asked, limit)}", _tools_in_brief(turn)]
    parts.append(f"Answered: {brief(said[-1], limit)}" if said else "Not answered.")
    return " ".join(part for part in parts if part)


def _tools_in_brief(messages: Sequence[AnyMessage]) -> str:
    names = [
        f"{message.name or 'a tool'}{' (failed)' if message.status == 'error' else ''}"
        for message in messages
        if isinstance(message, ToolMessage)
    ]
    counted = [f"{name} x{names.count(name)}" if names.count(name) > 1 else name for name in names]
    return brief(f"Tools: {', '.join(dict.fromkeys(counted))}.", 200) if names else ""


def fit(messages: Sequence[AnyMessage], room: int) -> list[AnyMessage]:
    """Return what a prompt shows of a transcript that may be larger than `room` tokens.

    Nothing is taken away while it fits. Else, until it fits: older messages are shortened, the oldest first;
    the turns before the newest become an extract; the results of the newest step are cut down to half
    of the room; the newest turn's oldest steps become a note. The newest turn's request stays whole, so
    what is returned may still be too large. More is freed than is needed now: so the beginning is the
    same a step later.
    """
    shown = list(messages)
    half = partial(_shorten_newest, least=room // 2)
    for way in (_shorten_older, _fold_turns, half, _fold_steps, partial(_shorten_newest, least=0)):
        if not shown or tokens_of(shown) <= room:
            break
        shown = way(shown, room)
    return shown


def _to_free(messages: Sequence[AnyMessage], room: int) -> int:
    """Return the tokens to free: in quarters of the room, so that the next steps find the same number."""
    quarter = max(1, room // 4)
    excess = tokens_of(messages) - room
    return -(-excess // quarter) * quarter


def _shorten_older(messages: list[AnyMessage], room: int) -> list[AnyMessage]:
    to_free = _to_free(messages, room)
    newest = turns_of(messages)[-1]
    steps = _cut_before(newest, AIMessage)
    keep = len(messages) - len(steps[-1])
    request = len(messages) - len(newest)
    shown = list(messages)
    for index in range(keep):
        if to_free <= 0:
            break
        if index >= request and isinstance(shown[index], HumanMessage):
            continue
        short = _shortened(shown[index], EXCERPT)
        to_free -= tokens_of([shown[index]]) - tokens_of([short])
        shown[index] = short
    return shown


def _fold_turns(messages: list[AnyMessage], room: int) -> list[AnyMessage]:
    *older, newest = turns_of(messages)
    if not older:
        return messages
    kept = [message for turn in older for message in turn if isinstance(message, SystemMessage)]
    text = extract(older, room // 8 * BYTES_PER_TOKEN)
    gone = [message for turn in older for message in turn]
    return [*kept, stand_in(f"The turns before this one, in brief, to save room:\n{text}", gone), *newest]


def _shorten_newest(messages: list[AnyMessage], room: int, *, least: int) -> list[AnyMessage]:
    """Share what is left, `least` tokens or more, among the results of the newest step.

    What takes less than its share stays whole.
    """
    step = _cut_before(messages, AIMessage)[-1]
    start = len(messages) - len(step)
    results = [index for index in range(start, len(messages)) if isinstance(messages[index], ToolMessage)]
    results.sort(key=lambda index: tokens_of([messages[index]]))
    shown = list(messages)
    left = max(least, room - tokens_of(each for at, each in enumerate(shown) if at not in results))
    for number, index in enumerate(results):
        share = left // (len(results) - number)
        if tokens_of([shown[index]]) > share:
            shown[index] = _shortened(shown[index], max(EXCERPT, (share - _NOTE) * BYTES_PER_TOKEN))
        left -= tokens_of([shown[index]])
    if tokens_of(shown) > room and isinstance(shown[start], AIMessage):
        shown[start] = _shortened(shown[start], EXCERPT)
    return shown


def _fold_steps(messages: list[AnyMessage], room: int) -> list[AnyMessage]:
    """Replace the oldest steps of the newest turn, calls and answers together, by a note."""
    *before, newest = turns_of(messages)
    to_free = _to_free(messages, room)
    head, *steps = _cut_before(newest, AIMessage)
    gone: list[AnyMessage] = []
    while len(steps) > 1 and to_free > 0:
        if any(isinstance(message, HumanMessage | SystemMessage) for message in steps[0]):
            break
        to_free -= tokens_of(steps[0])
        gone += steps.pop(0)
    if not gone:
        return messages
    calls = sum(isinstance(message, ToolMessage) for message in gone)
    used = f"{calls} calls. {_tools_in_brief(gone)}"
    note = stand_in(f"[Earlier steps of this turn are left out to save room: {used}]", gone)
    return [
        *(each for turn in before for each in turn),
        *head,
        note,
        *(each for step in steps for each in step),
    ]


def _shortened(message: AnyMessage, size: int) -> AnyMessage:
    """Shorten a message, but for what the caller's program says as system."""
    return message if isinstance(message, SystemMessage) else shortened(message, size)


def stand_in(text: str, gone: Sequence[AnyMessage]) -> HumanMessage:
    """Return a message that stands in a prompt for others; it is marked as no person's.

    The mark counts the model's replies among them, for models that count their replies.
    """
    replies = sum(isinstance(each, AIMessage) and not is_synthetic(each) for each in gone)
    return HumanMessage(
        text, additional_kwargs={"skills_agent": {**SYNTHETIC["skills_agent"], "replies": replies}}
    )
