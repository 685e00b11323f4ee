"""HTTP servers on loopback, each in a thread, with a state that a test reads and changes while they run."""

import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeVar

State = TypeVar("State")


class Requests(BaseHTTPRequestHandler):
    """Answers whole, and says nothing on stderr."""

    @property
    def state(self) -> Any:
        """Return the state of the server."""
        return self.server.state  # type: ignore[attr-defined]

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, body: bytes = b"", kind: str = "", **headers: str) -> None:
        """Send an answer; `_` in the name of a header stands for `-`."""
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def respond(self) -> None:
        """Answer a request of any method."""
        raise NotImplementedError

    def do_POST(self) -> None:
        self.respond()

    do_GET = do_POST  # noqa: N815 - its name in the base class

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, but for a client that left: a command that was stopped does."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(
    handler: Callable[..., BaseHTTPRequestHandler],
    made: Callable[[str], State],
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> Iterator[State]:
    """Serve on a port of loopback (0: a free one) until the block ends; `made` makes the state.

    A handler finds the state as `self.server.state`.
    """
    with _Server(("127.0.0.1", port), handler) as http:
        if tls:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        state = made(f"{'https' if tls else 'http'}://127.0.0.1:{http.server_port}")
        http.state = state  # type: ignore[attr-defined]
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            http.shutdown()
            thread.join()
