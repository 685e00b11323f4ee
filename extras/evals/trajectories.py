"""What happened in a thread, as the plain records that checks and reports read."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.types import StateSnapshot
from msgspec import structs

from skills_agent.evals.cases.trajectory import CallStatus, MadeCall, Spent, Trajectory
from skills_agent.graph.threads.threads import Threads
from skills_agent.skills.confined import open_beneath
from skills_agent.skills.text import readable
from skills_agent.skills.trees import walk
from skills_agent.state.transcript import (
    LOAD_SKILL,
    answers_by_step,
    is_refusal,
    is_synthetic,
    outcome_of,
    shown_calls_of,
)

SHOWN: Final = 2_000
"""Characters of a result that are kept; the thread has all."""
_MAX_FILES: Final = 10_000


Inside = Mapping[str, Sequence[MadeCall]]
"""The calls that each fork made, by the call that it answers."""


def calls_inside(threads: Threads, thread: str, snapshot: StateSnapshot, around: str = "") -> Inside:
    """Return what the forks of a thread, or of the fork at `around`, called."""
    return {
        call: trajectory_of(state.values, inside=calls_inside(threads, thread, state, place)).calls
        for call, place, state in threads.forks(thread, snapshot, around)
    }


def trajectory_of(
    values: Mapping[str, Any],
    *,
    asked: bool = False,
    inside: Inside = MappingProxyType({}),
) -> Trajectory:
    """Return what happened in a thread, from its channels; with `asked` a load need not have happened."""
    messages: list[AnyMessage] = values.get("messages") or []
    ledger: Mapping[str, Any] = values.get("skills_loaded") or {}
    answers: list[str] = []
    calls: list[MadeCall] = []
    chosen: list[str] = []
    step = 0
    for message, results in zip(messages, answers_by_step(messages), strict=True):
        if not isinstance(message, AIMessage):
            continue
        shown = shown_calls_of(message)
        for call in shown if not is_synthetic(message) else ():
            result = results.get(call["id"] or "")
            text = str(result.text)[:SHOWN] if result else ""
            made = MadeCall(
                tool=call["name"], args=call["args"], status=_status(result), step=step, result=text
            )
            calls.append(made)
            if made.tool == LOAD_SKILL and (asked or made.status == "ok"):
                chosen += _chosen(str(call["args"].get("name", "")).partition("@")[0], ledger)
        within = (each for call in shown for each in inside.get(call["id"] or "", ()))
        calls += (structs.replace(each, step=step + 1 + each.step) for each in within)
        if is_synthetic(message):
            continue
        if not shown:
            answers.append(str(message.text))
        step = 1 + max(step, calls[-1].step if calls else 0)
    return Trajectory(
        answers=tuple(answers),
        calls=tuple(calls),
        chosen=tuple(dict.fromkeys(chosen)),
    )


def _chosen(name: str, ledger: Mapping[str, Any]) -> Iterator[str]:
    """Yield a skill that the model asked for, and what it requires, which is loaded in one step with it."""
    record = ledger.get(name, {})
    if record.get("asked_by", "model") == "model":
        yield name
        call = record.get("call_id")
        yield from (other for other, each in ledger.items() if record and each.get("call_id") == call)


def spent_of(values: Mapping[str, Any]) -> Spent:
    """Return what a thread took, but for time, as its channel `usage` counts it."""
    counts: Mapping[str, int] = (values.get("usage") or {}).get("thread") or {}
    return Spent(
        model_calls=counts.get("model_calls", 0),
        input_tokens=counts.get("input_tokens", 0),
        output_tokens=counts.get("output_tokens", 0),
        cached_tokens=counts.get("cache_read_tokens", 0),
    )


def _status(result: ToolMessage | None) -> CallStatus:
    if result is None:
        return "unanswered"
    if is_refusal(result):
        return "refused"
    program = outcome_of(result)
    return "error" if result.status == "error" or (program and program["exit_code"] != 0) else "ok"


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each regular file beneath a folder; links are not followed.

    What is kept to take runs back is no file of the workspace.
    """
    found: dict[str, str] = {}
    for parent, folders, names in walk(folder):
        folders[:] = sorted(each for each in folders if each not in {".git", "__pycache__"})
        for name in sorted(names):
            if len(found) >= _MAX_FILES:
                return found
            relative = Path(parent, name).relative_to(folder).as_posix()
            if relative.startswith(".agent/undo/"):
                continue
            # Passed over: a link, a FIFO, or what its owner may not read.
            with suppress(OSError), os.fdopen(open_beneath(folder, relative, follow=False), "rb") as stream:
                found[readable(relative)] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found
