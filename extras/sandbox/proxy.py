"""A proxy that lets a sandboxed program reach some hosts, and says which others it wanted.

It listens on a Unix socket, which is the only way out of the sandbox. Names are resolved here, and an address
that is not public is refused (addresses.py). CONNECT and absolute URLs of HTTP are understood, which is what
`HTTP_PROXY` and `HTTPS_PROXY` mean to programs.

Our own, because no library fits: proxy.py (14,000 lines, its hooks know no refusal of an address that it
resolves by itself) connects in its event loop, so that one host that is slow stops all others, and pproxy is
unkept. The parser is h11, which is here already.
"""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from threading import Thread
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
        self._open = 0

    async def serve(self, client: StreamReader, back: StreamWriter) -> None:
        """Serve one connection of a program to its end."""
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                await self._serve(client, back)
        except (OSError, TimeoutError):  # the program, or the host, is gone
            pass
        finally:
            self._open -= 1
            back.close()

    async def _serve(self, client: StreamReader, back: StreamWriter) -> None:
        parser = h11.Connection(h11.SERVER)
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                request = await _next(parser, client)
            if not isinstance(request, h11.Request):
                return
            if request.method == b"CONNECT":
                await self._tunnel(_target_of(request), client, back, parser.trailing_data[0])
            else:
                await self._forward(request, parser, client, back)
        except NetworkError as error:
            await _refuse(403, str(error), client, back)
        except h11.ProtocolError as error:
            await _refuse(400, str(error), client, back)

    async def _tunnel(self, target: Target, client: StreamReader, back: StreamWriter, first: bytes) -> None:
        """Pass bytes on in both directions; `first` came with the request."""
        async with self._connected(target) as (answers, server):
            back.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.write(first)
            await asyncio.gather(_pump(client, server), _pump(answers, back))

    async def _forward(
        self, request: h11.Request, parser: h11.Connection, client: StreamReader, back: StreamWriter
    ) -> None:
        """Pass one request on, then its answer as it is, which ends with the connection.

        The connection is for one: the next may be for another host.
        """
        url = parse_url(request.target.decode("ascii", errors="replace"))
        if url.scheme != "http":
            raise UrlError(str(url), "a URL of https is asked for by CONNECT")
        headers = [each for each in request.headers.raw_items() if each[0].lower() not in _OF_ONE_HOP]
        own = [(b"Host", url.authority.encode("ascii")), (b"Connection", b"close")]
        async with self._connected(url.target) as (answers, server):
            onward = h11.Connection(h11.CLIENT)
            event: Any = h11.Request(method=request.method, target=url.path, headers=[*own, *headers])
            if parser.they_are_waiting_for_100_continue:
                back.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            while not isinstance(event, h11.EndOfMessage):
                server.write(onward.send(event) or b"")
                await server.drain()
                event = await _next(parser, client)
            server.write(onward.send(event) or b"")
            await _pump(answers, back)

    def _connect(self, target: Target) -> socket:
        if not any(pattern.permits(target) for pattern in self._hosts):
            raise NetworkError("the network is closed to it")
        return connect(target, is_allowed=self._is_allowed)

    @asynccontextmanager
    async def _connected(self, target: Target) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
        """Yield a connection to a host that is permitted. Raises NetworkError, and keeps why."""
        try:
            connection = await asyncio.to_thread(self._connect, target)
        except NetworkError as error:
            if len(self.refused) < MAX_REFUSED:
                self.refused.setdefault(str(target), str(error))
            raise
        connection.setblocking(False)
        answers, server = await asyncio.open_connection(sock=connection)
        try:
            yield answers, server
        finally:
            server.close()


@contextmanager
def serving(hosts: Collection[HostPattern], *, is_allowed: IsAllowed = is_public) -> Iterator[FilteringProxy]:
    """Serve while the block runs; every connection ends with it. `is_allowed` is for tests."""
    loop = asyncio.new_event_loop()
    with TemporaryDirectory(prefix="skills-agent-", ignore_cleanup_errors=True) as folder:
        proxy = FilteringProxy(Path(folder), hosts, is_allowed)
        path = str(proxy.folder / SOCKET)
        starting = asyncio.start_unix_server(proxy.serve, path, backlog=MAX_CONNECTIONS)
        server = loop.run_until_complete(starting)
        thread = Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.run_until_complete(_end_others())
            loop.close()


async def _end_others() -> None:
    """End every connection; a host that does not answer is not waited for."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)  # then the transports are closed


async def _next(parser: h11.Connection, reading: StreamReader) -> Any:
    while (event := parser.next_event()) is h11.NEED_DATA:
        parser.receive_data(await reading.read(CHUNK_BYTES))
    return event


async def _pump(reading: StreamReader, writing: StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reading.read(CHUNK_BYTES):
            writing.write(chunk)
            await writing.drain()
    with suppress(OSError):
        writing.write_eof()


async def _refuse(status: int, reason: str, client: StreamReader, back: StreamWriter) -> None:
    body = f"{reason}\n".encode(errors="replace")
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain; charset=utf-8\r\n"
    back.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode("ascii") + body)
    back.write_eof()
    # Closed with something unread, a socket takes back what was written.
    with suppress(TimeoutError):
        async with asyncio.timeout(REFUSED_SECONDS):
            while await client.read(CHUNK_BYTES):
                pass


def _target_of(request: h11.Request) -> Target:
    try:
        host, port = split_authority(request.target.decode("ascii"))
    except ValueError as error:
        raise UrlError("A target of CONNECT", "it is not host:port") from error
    return Target(host, port or 0)
