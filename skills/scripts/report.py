"""The text that a model reads about a run of a script."""

import re
import signal

from skills_agent.skills.scripts.runner import ScriptResult
from skills_agent.skills.text import clean_text, normalize_line_ends

TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
"""Colours, cursor movements and titles (ECMA-48 CSI and OSC sequences)."""


def describe(result: ScriptResult) -> str:
    """Return outcome, output and errors of a run; a stream that is empty has no section."""
    parts = [f"{_outcome(result)} ({result.seconds:.2f} s)"]
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        readable = clean_text(normalize_line_ends(TERMINAL_CODE.sub("", text))).text
        if readable.strip():
            parts.append(f"{name}:\n{readable.rstrip()}")
    return "\n".join(parts)


def _outcome(result: ScriptResult) -> str:
    if result.timed_out:
        return "stopped: time limit reached"
    if result.exit_code is None:
        return "stopped: too much output"
    if result.exit_code < 0:
        return f"ended by {_signal_name(-result.exit_code)}"
    return f"exit code {result.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
