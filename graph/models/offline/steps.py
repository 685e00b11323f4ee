"""The steps that instructions prescribe."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from skills_agent.graph.models.offline.request import Request
from skills_agent.graph.models.offline.words import stems

MAX_STEPS = 15
_MAX_STEP = 240
_NUMBERED = re.compile(r"\d{1,2}[.)]\s+(.*)")
_BULLET = re.compile(r"[-*+]\s+(?:\[[ xX]\]\s+)?(.*)")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*")
_STEP_HEADING = re.compile(r"(?:step|phase|stage)\s+\d+\b|\d+[.)]\s", re.IGNORECASE)
_STEP_WORDS = stems("steps workflow process procedure instructions checklist how method guidelines rules")


class Steps(NamedTuple):
    """A list out of the instructions, in their order."""

    title: str
    items: tuple[str, ...]
    omitted: int
    """Steps beyond the limit."""


class _List(NamedTuple):
    title: str
    numbered: bool
    items: list[str]


def prescribed_steps(instructions: str, request: Request) -> Steps | None:
    """Return the list that answers the request best; the sections where the text has no list.

    Headings that count (`## Step 1: ...`) go before lists, numbered lists before others, and a
    section whose title speaks of the request or of steps before one that does not.
    """
    lists = list(_lists(instructions))
    headings = [title for title in _headings(instructions) if _STEP_HEADING.match(title)]
    if len(headings) > 1:
        return _bounded("", headings)
    if lists:
        best = max(lists, key=lambda each: _suits(each, request))
        return _bounded(best.title, best.items)
    sections = list(_headings(instructions))[1:] or _sentences(instructions)
    return _bounded("", sections) if sections else None


def _suits(each: _List, request: Request) -> tuple[int, int]:
    title = stems(each.title)
    spoken = len(title & request.stems) + len(request.stems & stems(" ".join(each.items))) / 4
    weight = 4 * bool(title & _STEP_WORDS) + 3 * each.numbered + 2 * spoken + 2 * (len(each.items) > 1)
    return round(weight * 4), len(each.items)


def _bounded(title: str, items: list[str]) -> Steps:
    shown = tuple(_short(item) for item in items[:MAX_STEPS])
    return Steps(title, shown, len(items) - len(shown))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_STEP else text[:_MAX_STEP].rsplit(" ", 1)[0] + " …"


def _lists(text: str) -> Iterator[_List]:
    """Yield the lists at the outer level; what is indented below an item belongs to it."""
    title, current = "", _List("", numbered=False, items=[])
    for line in _unfenced(text):
        heading = _HEADING.fullmatch(line)
        numbered, bullet = _NUMBERED.match(line), _BULLET.match(line)
        item = numbered or bullet
        if heading or (item and bool(numbered) != current.numbered and current.items):
            if current.items:
                yield current
            current = _List("", numbered=False, items=[])
        if heading:
            title = heading[1]
        elif item:
            if not current.items:
                current = _List(title, numbered=bool(numbered), items=[])
            current.items.append(item[1])
        elif line.startswith((" ", "\t")) and current.items and line.strip():
            current.items[-1] += " " + line.strip()
        elif line.strip() and current.items and not current.numbered:
            yield current
            current = _List("", numbered=False, items=[])
    if current.items:
        yield current


def _headings(text: str) -> Iterator[str]:
    matches = (_HEADING.fullmatch(line) for line in _unfenced(text))
    return (match[1] for match in matches if match)


def _sentences(text: str) -> list[str]:
    prose = " ".join(line for line in _unfenced(text) if not _HEADING.fullmatch(line))
    return [each for each in re.split(r"(?<=[.!?])\s+", prose.strip()) if each]


def _unfenced(text: str) -> Iterator[str]:
    fenced = False
    for line in text.splitlines():
        if re.match(r"\s*(?:```|~~~)", line):
            fenced = not fenced
        elif not fenced:
            yield line.rstrip()
