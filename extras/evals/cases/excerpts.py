"""What was found, as a person reads it: short, on one line where it is quoted, and with nothing hidden.

What is quoted was written by a model, a script or a stranger, and stands in reports and on terminals.
"""

from collections.abc import Sequence
from typing import Final

from skills_agent.evals.cases.result import CheckKind, CheckResult
from skills_agent.skills.text import cut, one_line
from skills_agent.skills.visible import visible

MAX_EVIDENCE: Final = 500
"""Characters of what a check says it found."""
_QUOTE: Final = 120
_BEFORE: Final = 40
"""Characters before what is pointed at, in a text that is too long to be quoted whole."""


def result(kind: CheckKind, text: str, *, passed: bool, evidence: str = "") -> CheckResult:
    """Return the result of a check, its evidence bounded and visible."""
    shown = cut(visible(evidence[: MAX_EVIDENCE + 1], "prose"), MAX_EVIDENCE)
    return CheckResult(kind=kind, text=visible(text, "prose"), passed=passed, evidence=shown)


def quote(text: str, limit: int = _QUOTE) -> str:
    """Return a text in quotation marks, on one line and cut at `limit` characters."""
    return f'"{cut(one_line(visible(text[: 4 * limit], "prose")), limit)}"'


def around(text: str, start: int) -> str:
    """Quote the part of a text that begins a little before `start`; its beginning where that is nowhere."""
    if start < 0:
        return f"It begins with {quote(text, 400)}" if text.strip() else "It is empty."
    first = max(start - _BEFORE, 0) if len(text) > _QUOTE else 0
    return quote(f"{'…' if first else ''}{text[first:]}")


def listed(names: Sequence[str], limit: int = 10) -> str:
    """Return names as a sentence lists them: `a, b and 3 more`."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest:,} more" if rest > 0 else "")
