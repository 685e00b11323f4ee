"""Images as models read them: LangChain's standard content blocks, in a tool's message."""

import base64
from typing import Any, Final

from langchain_core.tools import ToolException

MAX_IMAGE_BYTES: Final = 3_500_000
"""In base64 just below the 5 MB that providers take."""

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def image_type(raw: bytes) -> str | None:
    """Return the MIME type of an image by its first bytes, of the four kinds that models take; else None."""
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS if raw.startswith(start)), None)


def image_content(path: str, raw: bytes, kind: str) -> list[dict[str, Any]]:
    """Return the content of a tool message that shows an image.

    Raises ToolException for one that is too large for models.
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
