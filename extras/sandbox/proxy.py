"""A proxy that lets a sandboxed program reach some hosts, and says which others it wanted.

It listens on a Unix socket, which is the only way out of the sandbox. Names are resolved here, and an address
that is not public is refused (addresses.py). CONNECT and absolute URLs of HTTP are understood, which is what
`HTTP_PROXY` and `HTTPS_PROXY` mean to programs.

Our own, because no library fits: proxy.py (14,000 lines, its hooks know no refusal of an address that it
resolves by itself) connects in its event loop, so that one host that is slow stops all others, and pproxy is
unkept. The parser is h11, which is here already.
"""

import socket
import socketserver
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, Final

import h11

from skills_agent.sandbox.forwarder import SOCKET
from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import IsAllowed, connect, is_public
from skills_agent.skills.network.hosts import HostPattern, Target, UrlError, parse_url, split_authority

HEAD_SECONDS: Final = 20.0
"""For the request's head."""
MAX_CONNECTIONS: Final = 64
MAX_REFUSED: Final = 100
MAX_UNREAD: Final = 1 << 20
REFUSED_SECONDS: Final = 2.0
"""For what a program still sends when it was refused."""
CHUNK_BYTES: Final = 1 << 16
_OF_ONE_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"upgrade", b"host"}
    | {b"expect"}
)


class FilteringProxy:
    """A proxy while it serves: what it refused, and the folder with its socket."""

    def __init__(
        self, folder: Path, hosts: Collection[HostPattern], is_allowed: IsAllowed = is_public
    ) -> None:
        self.folder = folder
        self.refused: dict[str, str] = {}
        """Why a connection was not made, by `host:port`, in the order of the first requests."""
        self._hosts = tuple(hosts)
        self._is_allowed = is_allowed
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        self._slots = BoundedSemaphore(MAX_CONNECTIONS)
        self._is_closed = False

    def connect(self, target: Target) -> socket.socket:
        """Return a connection to a host that is permitted. Raises NetworkError, and keeps why."""
        try:
            connection = self._connect(target)
        except NetworkError as error:
            with self._lock:
                if len(self.refused) < MAX_REFUSED:
                    self.refused.setdefault(str(target), str(error))
            raise
        self.keep(connection)
        return connection

    def _connect(self, target: Target) -> socket.socket:
        if not any(pattern.permits(target) for pattern in self._hosts):
            raise NetworkError("the network is closed to it")
        return connect(target, is_allowed=self._is_allowed)

    def serve(self, client: socket.socket) -> None:
        """Serve one connection of a program to its end."""
        if not self._slots.acquire(blocking=False):
            client.close()
            return
        try:
            self.keep(client)
            with suppress(OSError):  # the program, or the host, is gone
                _Exchange(self, client).run()
        finally:
            self.drop(client)
            self._slots.release()

    def keep(self, connection: socket.socket) -> None:
        """Have a connection end with the proxy. Raises OSError where that has ended."""
        with self._lock:
            self._open.add(connection)
            if self._is_closed:
                raise OSError("the proxy is closed")

    def drop(self, connection: socket.socket) -> None:
        """Close a connection."""
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def close(self) -> None:
        """End every connection."""
        with self._lock:
            self._is_closed = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, path: Path, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        super().__init__(str(path), socketserver.BaseRequestHandler)

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - of the base class
        self._serve(request)


@contextmanager
def serving(hosts: Collection[HostPattern], *, is_allowed: IsAllowed = is_public) -> Iterator[FilteringProxy]:
    """Serve while the block runs; every connection ends with it. `is_allowed` is for tests."""
    with TemporaryDirectory(prefix="skills-agent-", ignore_cleanup_errors=True) as folder:
        proxy = FilteringProxy(Path(folder), hosts, is_allowed)
        with _Server(proxy.folder / SOCKET, proxy.serve) as server:
            thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            try:
                yield proxy
            finally:
                server.shutdown()
                thread.join()
                proxy.close()


class _Exchange:
    """One request of a program, and its answer."""

    def __init__(self, proxy: FilteringProxy, client: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._parser = h11.Connection(h11.SERVER)

    def run(self) -> None:
        """Serve it. Raises OSError where a connection breaks."""
        self._client.settimeout(HEAD_SECONDS)
        try:
            request = self._next(self._parser, self._client)
            if not isinstance(request, h11.Request):
                return
            if request.method == b"CONNECT":
                self._tunnel(_target_of(request), self._parser.trailing_data[0])
            else:
                self._forward(request)
        except NetworkError as error:
            self._refuse(_http_answer(403, str(error)))
        except h11.ProtocolError as error:
            self._refuse(_http_answer(400, str(error)))

    def _tunnel(self, target: Target, first: bytes) -> None:
        """Pass bytes on in both directions; `first` came with the request."""
        with self._connected(target) as server:
            self._client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(first)
            back = Thread(target=_pump, args=(server, self._client), daemon=True)
            back.start()
            _pump(self._client, server)
            back.join()

    def _forward(self, request: h11.Request) -> None:
        """Pass one request on, then its answer as it is, which ends with the connection.

        The connection is for one: the next may be for another host.
        """
        url = parse_url(request.target.decode("ascii", errors="replace"))
        if url.scheme != "http":
            raise UrlError(str(url), "a URL of https is asked for by CONNECT")
        headers = [each for each in request.headers.raw_items() if each[0].lower() not in _OF_ONE_HOP]
        own = [(b"Host", url.authority.encode("ascii")), (b"Connection", b"close")]
        with self._connected(url.target) as server:
            parser = h11.Connection(h11.CLIENT)
            onward = h11.Request(method=request.method, target=url.path, headers=[*own, *headers])
            server.sendall(parser.send(onward) or b"")
            if self._parser.they_are_waiting_for_100_continue:
                self._client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            while not isinstance(event := self._next(self._parser, self._client), h11.EndOfMessage):
                server.sendall(parser.send(event) or b"")
            server.sendall(parser.send(event) or b"")
            _pump(server, self._client)

    def _next(self, parser: h11.Connection, connection: socket.socket) -> Any:
        while (event := parser.next_event()) is h11.NEED_DATA:
            parser.receive_data(connection.recv(CHUNK_BYTES))
        return event

    @contextmanager
    def _connected(self, target: Target) -> Iterator[socket.socket]:
        server = self._proxy.connect(target)
        try:
            for each in (self._client, server):
                each.settimeout(None)
            yield server
        finally:
            self._proxy.drop(server)

    def _refuse(self, answer: bytes) -> None:
        self._client.sendall(answer)
        # Closed with something unread, a socket takes back what was written.
        self._client.shutdown(socket.SHUT_WR)
        self._client.settimeout(REFUSED_SECONDS)
        left = MAX_UNREAD
        while left > 0 and (chunk := self._client.recv(CHUNK_BYTES)):
            left -= len(chunk)


def _target_of(request: h11.Request) -> Target:
    try:
        host, port = split_authority(request.target.decode("ascii"))
    except ValueError as error:
        raise UrlError("A target of CONNECT", "it is not host:port") from error
    return Target(host, port or 0)


def _http_answer(status: int, reason: str) -> bytes:
    body = f"{reason}\n".encode(errors="replace")
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain; charset=utf-8\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode("ascii") + body


def _pump(reading: socket.socket, writing: socket.socket) -> None:
    with suppress(OSError):
        while chunk := reading.recv(CHUNK_BYTES):
            writing.sendall(chunk)
    with suppress(OSError):
        writing.shutdown(socket.SHUT_WR)
