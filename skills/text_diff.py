"""The difference of two texts, for a person: a unified diff that is made in a bounded time."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import unified_diff
from itertools import takewhile
from typing import Final

MAX_STEPS: Final = 30_000_000
"""Of the comparison, at worst: about a second. A text made to be slow is shown as replaced whole."""
CONTEXT: Final = 3
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


def text_of(raw: bytes) -> str | None:
    """Return the text that bytes are; None where they are no UTF-8, or have a NUL."""
    try:
        return None if b"\0" in raw else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text with their ends, which are `\n` and nothing else."""
    return _LINE.findall(text)


def diff(before: str, after: str) -> str:
    r"""Return a unified diff without its head; where the last line has no `\n`, it says so."""
    old, new = lines_of(before), lines_of(after)
    lines = list(unified_diff(old, new, n=CONTEXT))[2:] if _is_quick(old, new) else _replaced(old, new)
    return "".join(line if line[-1] == "\n" else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _is_quick(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether difflib is done soon: it looks at all pairs of equal lines, again for each block."""
    counts = Counter(new)
    pairs = sum(counts[line] for line in old) + len(old)
    return pairs * min(len(old), len(new)) <= MAX_STEPS


def _replaced(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return a diff in one piece: what both begin and end with is left out."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    rest = zip(reversed(old[same:]), reversed(new[same:]), strict=False)
    end = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rest))
    gone, come = old[same : len(old) - end], new[same : len(new) - end]
    head = f"@@ -{same + 1},{len(gone)} +{same + 1},{len(come)} @@\n"
    return [head, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)]
