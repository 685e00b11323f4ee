"""A connection with an end in time, as httpcore reads and writes it.

httpcore's own time limits are for one read. A server that sends a byte a second keeps within them for ever.
"""

import socket
from time import monotonic
from typing import Final

import httpcore

IDLE_SECONDS: Final = 30.0
"""That the other side may say nothing."""


class TimedStream(httpcore.NetworkStream):
    """Reads and writes a socket. Raises TimeoutError and OSError."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        """Take what is connected, and until when by `monotonic` the last byte has to be there."""
        self._connection, self._end = connection, end

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - ours counts
        """Return what arrives next; empty at the end."""
        self._connection.settimeout(patience(self._end))
        return self._connection.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send all of it."""
        self._connection.settimeout(patience(self._end))
        self._connection.sendall(buffer)

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()


def patience(end: float) -> float:
    """Return how long the other side may say nothing, before an end by `monotonic`. Raises TimeoutError."""
    if (left := end - monotonic()) <= 0:
        raise TimeoutError
    return min(left, IDLE_SECONDS)
