"""What was found, as a person reads it: short, on one line where it is quoted, and with nothing hidden.

What is quoted was written by a model, a script or a stranger, and stands in reports and on terminals.
"""

import difflib
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from skills_agent.evals.cases.result import CheckKind, CheckResult
from skills_agent.skills.text import cut, one_line
from skills_agent.skills.visible import visible

MAX_EVIDENCE: Final = 500
"""Characters of what a check says it found."""
MAX_QUOTE: Final = 120
_BEFORE: Final = 40
"""Characters before what is pointed at, in a text that is too long to be quoted whole."""
_DIFF_LINES: Final = 12


def result(kind: CheckKind, text: str, *, passed: bool, evidence: str = "") -> CheckResult:
    """Return the result of a check, its evidence bounded and visible."""
    return CheckResult(kind=kind, text=visible(text, "prose"), passed=passed, evidence=bounded(evidence))


def bounded(text: str) -> str:
    """Return evidence: at most MAX_EVIDENCE characters, everything visible."""
    return cut(visible(text[: MAX_EVIDENCE + 1], "prose"), MAX_EVIDENCE)


def quote(text: str, limit: int = MAX_QUOTE) -> str:
    """Return a text in quotation marks, on one line and cut at `limit` characters."""
    return f'"{cut(one_line(visible(text[: 4 * limit], "prose")), limit)}"'


def around(text: str, start: int, limit: int = MAX_QUOTE) -> str:
    """Quote the part of a text that begins a little before `start`."""
    first = max(start - _BEFORE, 0) if len(text) > limit else 0
    return quote(f"{'…' if first else ''}{text[first:]}", limit)


def listed(names: Sequence[str], limit: int = 10) -> str:
    """Return names as a sentence lists them: `a, b and 3 more`."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest:,} more" if rest > 0 else "")


def difference(expected: str, found: str) -> str:
    """Say where two texts differ first, and show the lines there as a diff (`-` expected, `+` found)."""
    ours, theirs = expected.split("\n"), found.split("\n")
    pairs = enumerate(zip_longest(ours, theirs))
    at, (one, other) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
    if one is None or other is None:
        word = "is missing" if other is None else "is too much"
        return bounded(f"Line {at + 1} {word}: {quote(one if other is None else other or '')}")
    column = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    if max(len(one), len(other)) > MAX_QUOTE:
        return bounded(
            f"Line {at + 1} differs from column {column + 1}: "
            f"expected {around(one, column)}, found {around(other, column)}"
        )
    window = slice(max(at - 1, 0), at + _DIFF_LINES)
    lines = difflib.unified_diff(
        [line[:MAX_QUOTE] for line in ours[window]],
        [line[:MAX_QUOTE] for line in theirs[window]],
        lineterm="",
        n=1,
    )
    return bounded("\n".join([f"Line {at + 1} differs:", *list(lines)[3 : 3 + _DIFF_LINES]]))
