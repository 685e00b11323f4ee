"""Take known secrets out of a stream, before anything of it is cut or kept."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

SHORTEST: Final = 4
"""Characters; the output would be full of holes if shorter values were taken out."""

MASK: Final = b"[secret]"


class Redactor:
    """Replaces values in chunks of any size, also where a value is split between two of them.

    A value is known as it is and as base64, hexadecimal, in a URL and in JSON; not reversed, split up
    or compressed: a script that means to betray its secret can.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = sorted({form for value in values for form in forms_of(value)}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, forms))) if forms else None
        self._overlap = len(forms[0]) - 1 if forms else 0
        self._pending = b""

    def take(self, chunk: bytes) -> bytes:
        """Return what can be given out now."""
        return self._passed(self._pending + chunk, self._overlap)

    def rest(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        return self._passed(self._pending, 0)

    def _passed(self, text: bytes, held: int) -> bytes:
        safe = max(0, len(text) - held)
        pieces, end = [], 0
        for found in self._pattern.finditer(text) if self._pattern else ():
            if found.start() >= safe:
                break
            pieces += [text[end : found.start()], MASK]
            end = found.end()
        safe = max(safe, end)
        self._pending = text[safe:]
        return b"".join([*pieces, text[end:safe]])


def forms_of(value: str) -> Iterator[bytes]:
    """Yield what a value looks like where it is written down; nothing for one that is too short."""
    raw = value.encode(errors="surrogateescape")
    if len(raw) < SHORTEST:
        return
    yield raw
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield quote(raw, safe="").encode()
    yield json.dumps(value)[1:-1].encode()
    for before in range(3):
        # The characters that the neighbours of the value have a part in are left out.
        coded = base64.b64encode(b"\0" * before + raw)
        first, last = -(-8 * before // 6), (8 * (before + len(raw))) // 6
        if last - first >= SHORTEST:
            yield coded[first:last]
            yield coded[first:last].translate(bytes.maketrans(b"+/", b"-_"))
