"""A real HTTP server that lists folders as links, on a port of its own."""

import ssl
from contextlib import AbstractContextManager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import Any

from tests.http_servers import Requests, served


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


class _Requests(SimpleHTTPRequestHandler, Requests):
    def send_head(self) -> Any:
        self.state.answering.wait(30)
        self.state.requests.append(f"{self.command} {self.path}")
        if self.path.startswith(self.state.failing):
            self.send_error(503)
            return None
        if self.path in self.state.pages:
            self.answer(200, self.state.pages[self.path].encode(), "text/html")
            return None
        return super().send_head()


def serving(folder: Path, tls: ssl.SSLContext | None = None) -> AbstractContextManager[WebFolder]:
    """Serve a folder; with `tls` by HTTPS."""
    return served(partial(_Requests, directory=str(folder)), WebFolder, tls=tls)
