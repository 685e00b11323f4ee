"""A server at an address: MCP's "streamable HTTP", with answers in bounds."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

MAX_MESSAGE: Final = 24_000_000
"""Bytes of one message, which may be a file of 16 MiB in base64; a server that sends a longer one is left."""
CONNECT_SECONDS: Final = 30.0


@asynccontextmanager
async def address_streams(url: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages from a server and to it, as MCP's client takes them.

    Redirects are followed within the address's own origin alone: the headers may hold a key.
    """
    import httpx2  # noqa: PLC0415 - of the extra `mcp`, as what follows
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

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
    import httpx2  # noqa: PLC0415

    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("a compressed answer, which was not asked for", request=response.request)
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _bounded(response.stream, response.request)


def _bounded(stream: Any, request: Any) -> Any:
    import httpx2  # noqa: PLC0415

    class Bounded(httpx2.AsyncByteStream):  # type: ignore[misc,unused-ignore]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            room = MAX_MESSAGE
            async for chunk in stream:
                room -= len(chunk)
                if room < 0:
                    raise httpx2.ReadError(f"an answer of more than {MAX_MESSAGE:,} bytes", request=request)
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
