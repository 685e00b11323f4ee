"""A server at an address: MCP's "streamable HTTP", with answers in bounds.

Imports the SDK (the extra `mcp`), so only functions import this.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

MAX_MESSAGE: Final = 24_000_000
"""Bytes of one message, which may be a file of 16 MiB in base64; a server that sends a longer one is left."""
CONNECT_SECONDS: Final = 30.0


@asynccontextmanager
async def address_streams(url: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from a server and to it, as MCP's client takes them.

    Redirects are followed within the address's own origin alone: the headers may hold a key.
    """
    plain = {**headers, "Accept-Encoding": "identity"}
    # A call may take as long as `tool_timeout` says, which the SDK's 300 seconds would cut.
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
    async with (
        httpx2.AsyncClient(headers=plain, timeout=timeout, event_hooks={"response": [_bound]}) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams[0], streams[1]


async def _bound(response: Any) -> None:
    """Make a response end at MAX_MESSAGE; the SDK itself bounds each event of a stream of events."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("a compressed answer, which was not asked for", request=response.request)
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Bounded(response.stream, response.request)


class _Bounded(httpx2.AsyncByteStream):  # type: ignore[misc,unused-ignore]
    def __init__(self, stream: Any, request: Any) -> None:
        self._stream, self._request = stream, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        room = MAX_MESSAGE
        async for chunk in self._stream:
            room -= len(chunk)
            if room < 0:
                text = f"an answer of more than {MAX_MESSAGE:,} bytes"
                raise httpx2.ReadError(text, request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
