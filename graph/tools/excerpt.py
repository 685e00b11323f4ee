"""The part of a text that fits into one tool message, with the way to the rest."""

from langchain_core.tools import ToolException

MAX_CHARS = 30_000
"""About 8,000 tokens."""


def excerpt(text: str, start: int | None = None, count: int | None = None, limit: int = MAX_CHARS) -> str:
    """Return `count` lines from the 1-based line `start`, whole lines up to `limit` characters.

    A note in brackets at the end says which lines these are, unless they are all of them.
    Raises ToolException when the text ends before `start`.
    """
    lines = text.removesuffix("\n").split("\n")
    first = max(start or 1, 1)
    if first > len(lines):
        raise ToolException(f"start={first} is after the end: there are {len(lines)} lines.")
    wanted = lines[first - 1 :] if count is None else lines[first - 1 : first - 1 + max(count, 1)]
    taken = _fitting(wanted, limit)
    if not taken:
        size = len(wanted[0])
        return f"{wanted[0][:limit]}\n[line {first} has {size} characters and was cut after {limit}]"
    if len(taken) == len(lines):
        return "\n".join(taken)
    last = first + len(taken) - 1
    more = f"; go on with start={last + 1}" if last < len(lines) else ""
    return "\n".join([*taken, f"[lines {first}-{last} of {len(lines)}{more}]"])


def _fitting(lines: list[str], limit: int) -> list[str]:
    room = limit
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < -1:
            return lines[:number]
    return lines
