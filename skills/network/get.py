"""GET by HTTP: bounded in time, to allowed addresses, through the proxy of the environment.

Nothing is decoded; who asks says which redirects are followed and how much is read. Imports httpcore, so what
a start needs does not import this.
"""

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import httpcore

from skills_agent.skills.network.addresses import IsAllowed, connect
from skills_agent.skills.network.agent_proxy import proxy_for
from skills_agent.skills.network.hosts import MAX_SHOWN, FetchError, Url, parse_url
from skills_agent.skills.network.timed_stream import TimedStream, patience
from skills_agent.skills.text import one_line

MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Way(NamedTuple):
    """How a place is reached, and every place that a redirect leads to."""

    environment: Mapping[str, str]
    """That names the proxy of HTTPS."""
    allowed_at: Callable[[Url], IsAllowed]
    """Which addresses a place may have. It may raise, and the place is not asked."""
    end: float
    """By `monotonic`: until then the last byte has to be there."""
    is_followed: Callable[[Url, Url], bool] = lambda *_: True
    """Whether a redirect from one place to another is followed. One that is not is the answer."""


class Response(NamedTuple):
    """An answer, of which the body is not read yet."""

    place: Url
    """Where it came from, after the redirects."""
    status: int
    headers: Mapping[str, str]
    """By names in lower case; of one that comes twice the last."""
    pieces: Iterator[bytes]
    """The body as it arrives."""

    @property
    def leads_to(self) -> Url | None:
        """Return where a redirect leads; None for what is none. Raises FetchError."""
        location = self.headers.get("location", "") if self.status in _REDIRECTS else ""
        return parse_url(location.partition("#")[0], str(self.place)) if location else None


@contextmanager
def get(place: Url, way: Way, accept: str = "*/*") -> Iterator[Response]:
    """Ask for a place, follow redirects, and yield the answer.

    Raises FetchError, also for what goes wrong while the body is read, and NetworkError as a proxy and
    `connect` do.
    """
    for _ in range(MAX_REDIRECTS + 1):
        with _get_one(place, way, accept) as answer:
            leads_to = answer.leads_to
            if leads_to is None or not way.is_followed(place, leads_to):
                yield answer
                return
        place = leads_to
    raise FetchError(str(place), f"it redirects more than {MAX_REDIRECTS} times")


@contextmanager
def _get_one(place: Url, way: Way, accept: str) -> Iterator[Response]:
    host, port = place.target
    url = httpcore.URL(scheme=place.scheme, host=host, port=port, target=place.path)
    own = [("Host", place.authority), ("User-Agent", "skills-agent"), ("Connection", "close")]
    wanted = [("Accept", accept), ("Accept-Encoding", "identity")]
    try:
        stream = TimedStream(_connected(place, way), way.end)
        # It refuses headers of more than 100 KiB.
        connection = httpcore.HTTP11Connection(url.origin, stream)
        with connection, connection.stream("GET", url, headers=[*own, *wanted]) as answer:
            named = {name.decode("ascii").lower(): value.decode("latin-1") for name, value in answer.headers}
            yield Response(place, answer.status, named, answer.iter_stream())
    except TimeoutError as error:
        raise FetchError(str(place), "it takes too long") from error
    except (OSError, httpcore.ProtocolError) as error:
        raise FetchError(str(place), one_line(str(error), MAX_SHOWN)) from error


def _connected(place: Url, way: Way) -> socket.socket:
    proxy = proxy_for(place.target, way.environment) if place.scheme == "https" else None
    reach = proxy.connect if proxy else connect
    connection = reach(place.target, is_allowed=way.allowed_at(place), seconds=patience(way.end))
    if place.scheme == "http":
        return connection
    try:
        connection.settimeout(patience(way.end))
        return ssl.create_default_context().wrap_socket(connection, server_hostname=place.target.host)
    except BaseException:
        connection.close()
        raise
