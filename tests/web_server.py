"""A real HTTP server that lists folders as links, on a port of its own."""

import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any


class WebFolder:
    """What a test may do with the server while it runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[str] = []
        """What was asked for: `GET /skills/`."""
        self.failing: tuple[str, ...] = ()
        """Paths that start so are answered with `503`."""
        self.pages: dict[str, str] = {}
        """Pages that are given instead of what is in the folder, by path."""
        self.answering = Event()
        """Cleared: nobody gets an answer."""
        self.answering.set()


class _Requests(SimpleHTTPRequestHandler):
    def __init__(self, *args: object, web: WebFolder, **kwargs: object) -> None:
        self._web = web
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def send_head(self) -> Any:
        self._web.answering.wait(30)
        self._web.requests.append(f"{self.command} {self.path}")
        if self.path.startswith(self._web.failing):
            self.send_error(503)
            return None
        if self.path in self._web.pages:
            return self._page(self._web.pages[self.path].encode())
        return super().send_head()

    def _page(self, page: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may read less than all
            super().handle_error(request, client_address)


@contextmanager
def serving(folder: Path, tls: ssl.SSLContext | None = None) -> Iterator[WebFolder]:
    """Serve a folder; with `tls` by HTTPS."""
    web = WebFolder("")
    server = _Server(("127.0.0.1", 0), partial(_Requests, directory=str(folder), web=web))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    web.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = Thread(target=partial(server.serve_forever, 0.01), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.answering.set()
        server.shutdown()
        server.server_close()
        thread.join()
