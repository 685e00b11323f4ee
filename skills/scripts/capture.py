"""Keep a bounded part of an output of any length: its beginning and its end."""

from collections.abc import Collection

from skills_agent.skills.scripts.redact import Redactor

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Capture:
    """The first and the last bytes of a stream.

    A report begins at the beginning and a traceback says what happened at the end; what is left
    out is the middle. Memory stays below twice the limit. Secrets are taken out before: a cut
    could leave a part of one that nobody recognizes.
    """

    def __init__(self, limit: int, secrets: Collection[str] = ()) -> None:
        self._redactor = Redactor(secrets)
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes that came."""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self._keep(self._redactor.take(chunk))

    def close(self) -> None:
        """Say that nothing more comes."""
        self._keep(self._redactor.rest())

    def _keep(self, chunk: bytes) -> None:
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
        """Return what was kept as text, with a line of its own where something is left out."""
        if not self.cut:
            return _decoded(bytes(self._head + self._tail))
        head = _decoded(bytes(self._head))
        tail = _decoded(bytes(self._tail[len(self._tail) - self._tail_limit :]))
        # A character that the cut goes through shows as U+FFFD on both sides.
        return f"{head.rstrip(REPLACEMENT)}\n[{self.cut} bytes cut]\n{tail.lstrip(REPLACEMENT)}"


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")
