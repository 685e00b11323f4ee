"""Hear which names the programs of a sandbox look up, which has no name server.

glibc asks the socket of nscd before anything else, in whatever program it is. So the host is known that a
program wanted, also where it says nothing of that, or hides what another one says (`npx ... 2>/dev/null`).
Nobody is answered: then glibc goes on as where no nscd runs, and does not ask again soon, so that it is the
first name of each process that is heard. musl and Go do not ask.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

from skills_agent.skills.network.hosts import split_authority

SOCKET: Final = Path("/var/run/nscd/socket")
"""Where glibc looks for it."""
SECONDS: Final = 1.0
"""For one question: it is sent at once, or by a program that is not glibc."""
MAX_HEARD: Final = 20
_HEAD: Final = struct.Struct("=3i")
"""Version, kind, and length of the text that follows, with its NUL."""
_VERSION: Final = 2
_OF_HOSTS: Final = frozenset({4, 5, 14})
"""GETHOSTBYNAME, GETHOSTBYNAMEv6, GETAI."""


class Lookups:
    """What was heard: names in lower case with a dot, in their order, up to MAX_HEARD."""

    def __init__(self, listener: socket.socket, place: Path) -> None:
        self.place = place
        """The socket."""
        self.names: dict[str, None] = {}
        self._listener = listener

    def listen(self) -> None:
        """Hear all, until the listener is shut down."""
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(SECONDS)
                    self._hear(connection.recv(_HEAD.size + 256))

    def _hear(self, asked: bytes) -> None:
        if len(asked) < _HEAD.size:
            return
        version, kind, length = _HEAD.unpack_from(asked)
        if version != _VERSION or kind not in _OF_HOSTS or len(self.names) >= MAX_HEARD:
            return
        text = asked[_HEAD.size : _HEAD.size + max(length, 0)].rstrip(b"\0").decode("latin-1")
        with suppress(ValueError):
            name, port = split_authority(text)
            if port is None and "." in name:  # without a dot: this machine's own
                self.names[name] = None


@contextmanager
def hearing() -> Iterator[Lookups]:
    """Hear while the block runs."""
    with TemporaryDirectory(prefix="skills-agent-", ignore_cleanup_errors=True) as folder:
        place = Path(folder, SOCKET.name)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(place))
            listener.listen(64)
            lookups = Lookups(listener, place)
            thread = Thread(target=lookups.listen, daemon=True)
            thread.start()
            try:
                yield lookups
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()
