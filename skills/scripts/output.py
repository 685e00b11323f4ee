"""Keep a bounded part of an output of any length, its beginning and its end, without the known secrets."""

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final
from urllib.parse import quote

SHORTEST: Final = 4
"""Characters; the output would be full of holes if shorter values were taken out."""
MASK: Final = b"[secret]"
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class Capture:
    """The first and the last bytes of a stream.

    A traceback says at its end what happened; the middle is left out. Memory stays below twice the limit.
    Some words are replaced before, such as secrets, also where one is split between two chunks.
    """

    def __init__(
        self, limit: int, instead: Mapping[bytes, bytes] = {}, tap: Callable[[bytes], object] | None = None
    ) -> None:
        """Keep `limit` bytes; `tap` gets all of them as they come; `instead` of words, it has others."""
        self._tap, self._instead = tap, instead
        self._words = sorted(instead, key=len, reverse=True)
        self._word = re.compile(b"|".join(map(re.escape, self._words))) if instead else None
        self._pending = b""
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes that came."""

    def add(self, chunk: bytes) -> None:
        text = self._pending + chunk
        self._keep(self._replaced(text, self._begun(text)))

    def close(self) -> None:
        self._keep(self._replaced(self._pending, 0))

    def _keep(self, chunk: bytes) -> None:
        if self._tap and chunk:
            self._tap(chunk)
        self.total += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: len(self._tail) - self._tail_limit]

    @property
    def cut(self) -> int:
        """Bytes that are left out of the text."""
        return max(0, self.total - self._head_limit - self._tail_limit)

    def text(self) -> str:
        """Return the kept parts as text, with a line of its own where something is left out."""
        if not self.cut:
            return (self._head + self._tail).decode(errors="replace")
        head = self._head.decode(errors="replace")
        tail = self._tail[max(0, len(self._tail) - self._tail_limit) :].decode(errors="replace")
        # A character that the cut goes through shows as U+FFFD on both sides.
        return f"{head.rstrip(REPLACEMENT)}\n[{self.cut} bytes cut]\n{tail.lstrip(REPLACEMENT)}"

    def _begun(self, text: bytes) -> int:
        """Return how many of the last bytes may be the beginning of such a word."""
        longest = min(len(text), len(self._words[0]) - 1) if self._words else 0
        sizes = range(longest, 0, -1)
        return next((n for n in sizes if any(word.startswith(text[-n:]) for word in self._words)), 0)

    def _replaced(self, text: bytes, overlap: int) -> bytes:
        """Return what can be given out, and hold back the end, which may be the beginning of a word."""
        safe = max(0, len(text) - overlap)
        pieces, end = [], 0
        for match in self._word.finditer(text) if self._word else ():
            if match.start() >= safe:
                break
            pieces += [text[end : match.start()], self._instead[match[0]]]
            end = match.end()
        safe = max(safe, end)
        self._pending = text[safe:]
        return b"".join([*pieces, text[end:safe]])


def masks(secrets: Collection[str]) -> dict[bytes, bytes]:
    """Return what stands for secrets, by all the forms of each."""
    return {form: MASK for value in secrets for form in forms_of(value)}


def forms_of(value: str) -> Iterator[bytes]:
    """Yield the forms in which a value may be written down; none for one that is too short.

    Not reversed, split up or compressed: a script that means to betray its secret can.
    """
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
