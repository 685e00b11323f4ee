"""What a tool message shows of a file: a part of a long text, or an image."""

import base64
from typing import Any, Final

from langchain_core.tools import ToolException

MAX_CHARS: Final = 30_000
"""About 8,000 tokens."""
MAX_IMAGE_BYTES: Final = 3_500_000
"""In base64 just below the 5 MB that providers take."""

_IMAGE_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

Start = int | None
"""The first line, from 1."""
Lines = int | None
"""How many."""


def excerpt(text: str, start: int | None = None, count: int | None = None, limit: int = MAX_CHARS) -> str:
    """Return `count` lines from the 1-based line `start`, whole lines up to `limit` characters.

    A note at the end says which lines these are. Raises ToolException when the text ends before `start`.
    """
    lines = text.removesuffix("\n").split("\n")
    first = max(start or 1, 1)
    if first > len(lines):
        raise ToolException(f"start={first} is after the end: there are {len(lines)} lines.")
    rest = lines[first - 1 :] if count is None else lines[first - 1 : first - 1 + max(count, 1)]
    taken = _fitting(rest, limit)
    if not taken:
        size = len(rest[0])
        return f"{rest[0][:limit]}\n[line {first} has {size} characters and was cut after {limit}]"
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


def image_type(raw: bytes) -> str | None:
    """Return the MIME type of an image by its first bytes, of the four kinds that models take; else None."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGE_STARTS if raw.startswith(start)), None)


def image_content(path: str, raw: bytes, kind: str) -> list[dict[str, Any]]:
    """Return the content of a tool message that shows an image, in LangChain's standard blocks.

    Raises ToolException for an image that is too large for models.
    """
    if len(raw) > MAX_IMAGE_BYTES:
        raise ToolException(
            f"{path} is an image of {len(raw):,} bytes, over the limit of {MAX_IMAGE_BYTES:,}. "
            "Make a smaller copy to see it."
        )
    encoded = base64.b64encode(raw).decode("ascii")
    return [
        {"type": "text", "text": f"{path} ({kind}, {len(raw):,} bytes):"},
        {"type": "image", "base64": encoded, "mime_type": kind},
    ]
