"""One request by HTTP: bounded in time, to an allowed address, through the proxy of the environment.

Nothing is decoded and no redirect followed here; who asks says how much is read.
"""

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin

from skills_agent.skills.network.addresses import IsAllowed, connect
from skills_agent.skills.network.agent_proxy import proxy_for
from skills_agent.skills.network.hosts import MAX_SHOWN, FetchError, Url, parse_url
from skills_agent.skills.text import one_line

if TYPE_CHECKING:
    import h11

MAX_REDIRECTS: Final = 5
CHUNK_BYTES: Final = 1 << 16
IDLE_SECONDS: Final = 30.0
"""That a server may say nothing."""
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Way(NamedTuple):
    """How a place is reached."""

    environment: Mapping[str, str]
    """That names the proxy of HTTPS."""
    is_allowed: IsAllowed
    end: float
    """By `monotonic`: until then the last byte has to be there."""


class Response(NamedTuple):
    """An answer, of which the body is not read yet."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case; of one that comes twice the last."""
    pieces: Iterator[bytes]
    """The body as it arrives."""

    @property
    def location(self) -> str:
        """Return where a redirect leads, as the server writes it; empty for what is none."""
        return self.headers.get("location", "") if self.status in REDIRECTS else ""


@contextmanager
def get(place: Url, way: Way, headers: Sequence[tuple[str, str]]) -> Iterator[Response]:
    """Ask for a place, and yield the answer. Raises FetchError, and NetworkError as a proxy and `connect` do.

    Also what goes wrong while the body is read and kept is a FetchError.
    """
    import h11  # noqa: PLC0415 - most processes never fetch

    client = h11.Connection(h11.CLIENT)
    own = [("Host", place.authority), ("User-Agent", "skills-agent"), ("Connection", "close")]
    request = h11.Request(method="GET", target=place.path, headers=[*own, *headers])
    try:
        with _connected(place, way) as connection:
            connection.settimeout(min(_left(way.end), IDLE_SECONDS))
            connection.sendall((client.send(request) or b"") + (client.send(h11.EndOfMessage()) or b""))
            yield _answer(_events(client, connection, way.end))
    except TimeoutError as error:
        raise FetchError(str(place), "it takes too long") from error
    except (OSError, h11.ProtocolError) as error:
        raise FetchError(str(place), one_line(str(error), MAX_SHOWN)) from error


def following(place: Url, location: str) -> Url:
    """Return where a redirect leads. Raises FetchError."""
    try:
        return parse_url(urljoin(str(place), location.partition("#")[0]))
    except ValueError as error:  # what is no URL to urljoin
        raise FetchError(one_line(location, MAX_SHOWN), "its host cannot be read") from error


def _connected(place: Url, way: Way) -> socket.socket:
    proxy = proxy_for(place.target, way.environment) if place.scheme == "https" else None
    reach = proxy.connect if proxy else connect
    connection = reach(place.target, is_allowed=way.is_allowed, seconds=_left(way.end))
    if place.scheme == "http":
        return connection
    try:
        connection.settimeout(min(_left(way.end), IDLE_SECONDS))
        return ssl.create_default_context().wrap_socket(connection, server_hostname=place.target.host)
    except BaseException:
        connection.close()
        raise


def _left(end: float) -> float:
    if (left := end - monotonic()) <= 0:
        raise TimeoutError
    return left


def _events(client: "h11.Connection", connection: socket.socket, end: float) -> Iterator[Any]:
    """Yield the events of an answer. The parser refuses headers of more than 16 KiB."""
    import h11  # noqa: PLC0415

    while True:
        event = client.next_event()
        if event is h11.NEED_DATA:
            connection.settimeout(min(_left(end), IDLE_SECONDS))
            client.receive_data(connection.recv(CHUNK_BYTES))
            continue
        yield event
        if event is h11.PAUSED or isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return


def _answer(events: Iterator[Any]) -> Response:
    import h11  # noqa: PLC0415

    response = next(event for event in events if isinstance(event, h11.Response))
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in response.headers}
    data = (bytes(event.data) for event in events if isinstance(event, h11.Data))
    return Response(response.status_code, headers, data)
