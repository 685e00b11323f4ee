"""A proxy that lets a sandboxed program reach some hosts, and says which others it wanted.

It listens on a Unix socket, which is the only way out of the sandbox. Names are resolved here, and an address
that is not public is refused (addresses.py). CONNECT alone is understood, by which programs ask a proxy for
HTTPS: what goes over plain HTTP, anybody on the way reads and changes.

Our own, because no library fits: proxy.py (14,000 lines, its hooks know no refusal of an address that it
resolves by itself) connects in its event loop, so that one host that is slow stops all others, and pproxy is
unkept.
"""

import asyncio
import re
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

from skills_agent.sandbox.forwarder import SOCKET
from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import IsAllowed, connect, is_public
from skills_agent.skills.network.hosts import FetchError, HostPattern, NetTarget, split_authority

HEAD_SECONDS: Final = 20.0
"""For the request's head."""
MAX_HEAD: Final = 1 << 16
MAX_CONNECTIONS: Final = 64
MAX_REFUSED: Final = 100
REFUSED_SECONDS: Final = 2.0
"""For what a program still sends when it was refused."""
CHUNK_BYTES: Final = 1 << 16
_CONNECT: Final = re.compile(rb"CONNECT (\S+) HTTP/1\.[01]\r\n")
_FAULTS: Final = (OSError, TimeoutError, IncompleteReadError, LimitOverrunError)
"""The program, or the host, is gone; or what it sends has no end."""


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
            with suppress(*_FAULTS):
                if self._open <= MAX_CONNECTIONS:
                    await self._serve(client, back)
        finally:
            self._open -= 1
            back.close()

    async def _serve(self, client: StreamReader, back: StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await client.readuntil(b"\r\n\r\n")
        try:
            answers, server = await self._connected(_target_of(head))
        except NetworkError as error:
            await _refuse(str(error), client, back)
            return
        try:
            back.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pump(client, server), _pump(answers, back))
        finally:
            server.close()

    async def _connected(self, target: NetTarget) -> tuple[StreamReader, StreamWriter]:
        """Return a connection to a host that is permitted. Raises NetworkError, and keeps why."""
        try:
            connection = await asyncio.to_thread(self._connect, target)
        except NetworkError as error:
            if len(self.refused) < MAX_REFUSED:
                self.refused.setdefault(str(target), str(error))
            raise
        connection.setblocking(False)
        return await asyncio.open_connection(sock=connection)

    def _connect(self, target: NetTarget) -> socket:
        if not any(pattern.permits(target) for pattern in self._hosts):
            raise NetworkError("the network is closed to it")
        return connect(target, is_allowed=self._is_allowed)


@contextmanager
def serving(hosts: Collection[HostPattern], *, is_allowed: IsAllowed = is_public) -> Iterator[FilteringProxy]:
    """Serve while the block runs; every connection ends with it. `is_allowed` is for tests."""
    loop = asyncio.new_event_loop()
    with TemporaryDirectory(prefix="skills-agent-", ignore_cleanup_errors=True) as folder:
        proxy = FilteringProxy(Path(folder), hosts, is_allowed)
        path = str(proxy.folder / SOCKET)
        starting = asyncio.start_unix_server(proxy.serve, path, limit=MAX_HEAD, backlog=MAX_CONNECTIONS)
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
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)  # then the transports are closed


async def _pump(reading: StreamReader, writing: StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reading.read(CHUNK_BYTES):
            writing.write(chunk)
            await writing.drain()
    with suppress(OSError):
        writing.write_eof()


async def _refuse(reason: str, client: StreamReader, back: StreamWriter) -> None:
    body = f"{reason}\n".encode(errors="replace")
    head = "HTTP/1.1 403 Refused\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    back.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body)
    back.write_eof()
    # Closed with something unread, a socket takes back what was written.
    with suppress(TimeoutError):
        async with asyncio.timeout(REFUSED_SECONDS):
            while await client.read(CHUNK_BYTES):
                pass


def _target_of(head: bytes) -> NetTarget:
    match = _CONNECT.match(head)
    if match is None:
        raise FetchError("A request", "it is no CONNECT: plain HTTP is closed, so ask for https")
    try:
        host, port = split_authority(match[1].decode("ascii"))
    except ValueError as error:
        raise FetchError("A target of CONNECT", "it is not host:port") from error
    return NetTarget(host, port or 0)
