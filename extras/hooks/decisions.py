"""What a hook decides, read from what its program printed or a model replied: Claude Code's forms."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from skills_agent.skills.scripts.runner import ScriptResult
from skills_agent.skills.text import clean_lines, cut, escape_markup

DENIES: Final = 2
"""The exit code that denies."""
_NOT_STARTED: Final = frozenset({126, 127})
"""Exit codes of a shell that cannot start a program."""
MAX_SAID: Final = 2_000
"""Characters of one thing that a hook says."""
_DENIALS: Final = {"decision": {"block", "deny"}, "permissionDecision": {"deny", "ask", "defer"}}
_OBJECT: Final = re.compile(r"\{.*\}", re.DOTALL)
_NO_REASON: Final = "it gives no reason"


class Decision(NamedTuple):
    """What one hook decides. JSON-native: the journal keeps it."""

    denied: str = ""
    """Why; empty where it denies nothing."""
    notes: Sequence[str] = []
    """What it says to the model."""
    warning: str = ""
    exit_code: int | None = None


def of_program(result: ScriptResult, *, is_prompt: bool = False) -> Decision:
    """Return what a program decided; one that did not start, or did not end by itself, has denied.

    `is_prompt`: plain text on stdout is for the model, as with UserPromptSubmit.
    """
    code, text = result.exit_code, result.stdout.strip()
    if code is None or code < 0 or code in _NOT_STARTED:
        why = f"it could not be started, or was ended ({result.stopped or code}). {said(result.stderr)}"
        return Decision(why.strip(), exit_code=code)
    fields = _object(text) if text.startswith("{") else {"systemMessage": text if is_prompt else ""}
    if fields is None:
        return Decision("it printed JSON that cannot be read", exit_code=code)
    return _of_output(fields, code, result.stderr)


def _of_output(fields: Mapping[str, Any], code: int, stderr: str) -> Decision:
    of_event = fields.get("hookSpecificOutput")
    fields = {**fields, **(of_event if isinstance(of_event, dict) else {})}
    texts = {name: said(value) for name, value in fields.items() if isinstance(value, str)}
    is_denied = code == DENIES or fields.get("continue") is False
    is_denied = is_denied or any(texts.get(name) in words for name, words in _DENIALS.items())
    reasons = [*map(texts.get, ("permissionDecisionReason", "reason", "stopReason"))]
    reasons += [said(stderr)] if code == DENIES else []
    denied = next(filter(None, [*reasons, _NO_REASON]), "") if is_denied else ""
    notes = [*filter(None, map(texts.get, ("additionalContext", "systemMessage")))]
    warning = f"it failed: {said(stderr)}" if code not in {0, DENIES} else ""
    return Decision(denied, notes, warning, code)


def of_model(text: str) -> Decision:
    """Return what a model decided; a reply that cannot be read denies."""
    found = _OBJECT.search(text)
    read = _object(found[0] if found else "") or {}
    if read.get("ok") is True:
        return Decision()
    reason = read.get("reason") or _NO_REASON
    return Decision(said(str(reason)) if read.get("ok") is False else "the judgement cannot be read")


def _object(text: str) -> dict[str, Any] | None:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def said(text: str) -> str:
    """Return what a hook says as a model may read it: bounded, and nothing hidden in it."""
    return escape_markup(cut(clean_lines(text).text.strip(), MAX_SAID))
