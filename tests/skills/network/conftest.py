"""A real server on this machine that answers with the bytes that a test gives."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import pytest

Answers = Callable[[bytes], bytes | Iterator[bytes]]


class RawServer:
    """Says what the function of a test returns for the head of each request."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.requests: list[bytes] = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (chunk := connection.recv(65_536)):
                head += chunk
            self.requests.append(head)
            answer = self.answers(head)
            for chunk in [answer] if isinstance(answer, bytes) else answer:
                connection.sendall(chunk)
            # Closed with a body unread, a socket takes back what was written.
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(20)
            while connection.recv(65_536):
                pass


@contextmanager
def serving(answers: Answers) -> Iterator[RawServer]:
    """Serve while the block runs."""
    raw = RawServer(answers)
    Thread(target=raw.serve, daemon=True).start()
    try:
        yield raw
    finally:
        raw.server.shutdown(socket.SHUT_RDWR)
        raw.server.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], RawServer]]:
    """Return a function that starts such a server."""
    open_servers = []

    def start(answers: Answers) -> RawServer:
        context = serving(answers)
        open_servers.append(context)
        return context.__enter__()

    yield start
    for each in open_servers:
        each.__exit__(None, None, None)
