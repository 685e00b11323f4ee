"""Count what a log says: levels, time span, and which messages repeat once their figures are masked."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from documents import LEVEL, STAMP

MASKS = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?:0x)?[0-9a-fA-F]{8,}\b"), "<hex>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
)
SAME = {"WARNING": "WARN"}


@dataclass(frozen=True, slots=True)
class LogLines:
    """What the lines of a log have in common."""

    levels: dict[str, int]
    first: str
    last: str
    messages: list[tuple[str, int]]
    """Masked message -> how many lines, most frequent first."""
    kinds: int
    """How many different masked messages there are."""


def read_log(lines: Sequence[str], limit: int) -> LogLines:
    """Return levels, times (in the order of the lines) and the most frequent messages."""
    levels, messages = Counter[str](), Counter[str]()
    stamps = []
    for line in lines:
        if not line.strip():
            continue
        if level := LEVEL.search(line[:200]):
            levels[SAME.get(level[1], level[1])] += 1
        if stamp := STAMP.match(line):
            stamps.append(stamp[1])
        messages[masked(line)] += 1
    ordered = sorted(messages.items(), key=lambda item: (-item[1], item[0]))
    first, last = (stamps[0], stamps[-1]) if stamps else ("", "")
    return LogLines(dict(levels.most_common()), first, last, ordered[:limit], len(messages))


def masked(line: str) -> str:
    """Return a line without its time and with placeholders for figures."""
    text = STAMP.sub("", line, count=1).strip()
    for pattern, placeholder in MASKS:
        text = pattern.sub(placeholder, text)
    return text
