"""The text that a model reads about a run of a script."""

import re
import signal
from typing import Final

from skills_agent.skills.scripts.runner import ScriptResult, Stop
from skills_agent.skills.text import clean_text, normalize_line_ends, one_line

TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
"""Colours, cursor movements and titles (ECMA-48 CSI and OSC sequences)."""

STOPS: Final[dict[Stop, str]] = {
    "time": "time limit reached",
    "output": "too much output",
    "memory": "too much memory",
    "processes": "too many processes",
    "shutdown": "the agent was shut down while it ran; what it did until then is done",
}


def describe(result: ScriptResult) -> str:
    """Return outcome, output, errors and files of a run; what is empty has no section."""
    parts = [f"{_outcome(result)} ({result.seconds:.2f} s, {result.level})"]
    if result.written:
        # Before the streams: what a script prints cannot be taken for this list.
        parts.append("\n".join(["files written:", *_written(result)]))
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        readable = clean_text(normalize_line_ends(TERMINAL_CODE.sub("", text))).text
        if readable.strip():
            parts.append(f"{name}:\n{readable.rstrip()}")
    if result.note:
        parts.append(f"[{result.note}]")
    return "\n".join(parts)


def _written(result: ScriptResult) -> list[str]:
    lines = [f"{one_line(clean_text(each.path).text)} ({each.size:,} bytes)" for each in result.written]
    return [*lines, f"[{result.written_more:,} more]"] if result.written_more else lines


def _outcome(result: ScriptResult) -> str:
    if result.stopped:
        return f"stopped: {STOPS[result.stopped]}"
    if result.exit_code is None:
        return "exit code unknown"
    if result.exit_code < 0:
        return f"ended by {_signal_name(-result.exit_code)}"
    return f"exit code {result.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
