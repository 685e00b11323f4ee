"""Fetch one page: bounded in time and size, from a public address, with its text as Markdown."""

import re
import socket
import ssl
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin

from skills_agent.skills.errors import DetailedError, NetworkError
from skills_agent.skills.network import markdown
from skills_agent.skills.network.addresses import IsAllowed, connect, is_public
from skills_agent.skills.network.agent_proxy import proxy_for
from skills_agent.skills.network.hosts import MAX_SHOWN, Url, UrlError, parse_url
from skills_agent.skills.text import clean_text, normalize_line_ends, one_line

if TYPE_CHECKING:
    import h11

SECONDS: Final = 30.0
"""For everything: name, connection, redirects, and the last byte."""
MAX_BYTES: Final = 2_000_000
"""Of a page, as it arrives and unpacked; what is beyond is left out, and said."""
MAX_REDIRECTS: Final = 5
CHUNK_BYTES: Final = 1 << 16
CONVERT_SECONDS: Final = 20.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|javascript|toml|x-ndjson|sql|x-sh)"
)
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)


class FetchError(DetailedError, NetworkError):
    """A page that could not be fetched, or is nothing to read."""

    sentence = "{url} was not fetched: {reason}."
    url: str
    reason: str


class Page(NamedTuple):
    """What came of a request."""

    url: str
    """Where it was in the end."""
    status: int
    kind: str
    """Its media type, in lower case; empty where the server says none."""
    text: str
    """Cleaned; of HTML its Markdown. Empty where it leads elsewhere."""
    size: int
    """Bytes that were read, unpacked."""
    is_cut: bool
    """Whether there was more."""
    leads_to: str = ""
    """The URL of another host that it redirects to: nobody has agreed to that one yet."""


def fetch(
    url: str,
    *,
    environment: Mapping[str, str] | None = None,
    is_allowed: IsAllowed = is_public,
    seconds: float = SECONDS,
) -> Page:
    """Return the page of a URL, by GET, without cookies and credentials.

    Redirects are followed on the same host, to no weaker scheme; one to another host is a result. HTTPS goes
    through the proxy that `environment` names (agent_proxy.py). Raises UrlError, FetchError, ProxyError, and
    what `connect` raises. `is_allowed` is for tests.
    """
    way = _Way(environment or {}, is_allowed, monotonic() + seconds)
    place = parse_url(url)
    for _ in range(MAX_REDIRECTS + 1):
        answer = _request(place, way)
        if answer.status not in _REDIRECTS or not answer.location:
            return _page(place, answer)
        following = _following(place, answer.location)
        is_weaker = place.scheme == "https" and following.scheme == "http"
        if following.target.host != place.target.host or is_weaker or not _is_usual(place, following):
            return Page(str(place), answer.status, "", "", 0, is_cut=False, leads_to=str(following))
        place = following
    raise FetchError(str(place), f"it redirects more than {MAX_REDIRECTS} times")


class _Way(NamedTuple):
    environment: Mapping[str, str]
    is_allowed: IsAllowed
    end: float

    def connect(self, place: Url) -> socket.socket:
        proxy = proxy_for(place.target, self.environment) if place.scheme == "https" else None
        reach = proxy.connect if proxy else connect
        return reach(place.target, is_allowed=self.is_allowed, seconds=_left(self.end))


class _Answer(NamedTuple):
    status: int
    kind: str
    charset: str
    location: str
    body: bytes
    is_cut: bool


def _is_usual(place: Url, following: Url) -> bool:
    """Return whether a redirect stays on its port, or goes from HTTP to HTTPS as usual."""
    return following.target.port == place.target.port or (place.target.port, following.target.port) == (
        80,
        443,
    )


def _following(place: Url, location: str) -> Url:
    try:
        return parse_url(urljoin(str(place), location.partition("#")[0]))
    except ValueError as error:  # what is no URL to urljoin
        raise UrlError(one_line(location, MAX_SHOWN), "its host cannot be read") from error


def _request(place: Url, way: _Way) -> _Answer:
    import h11  # noqa: PLC0415 - most processes never fetch

    client = h11.Connection(h11.CLIENT)
    headers = [
        ("Host", place.authority),
        ("User-Agent", "skills-agent"),
        ("Accept", "text/markdown, text/html;q=0.9, text/plain;q=0.9, */*;q=0.5"),
        ("Accept-Encoding", "gzip"),
        ("Connection", "close"),
    ]
    request = h11.Request(method="GET", target=place.path, headers=headers)
    try:
        with _connected(place, way) as connection:
            connection.settimeout(_left(way.end))
            connection.sendall((client.send(request) or b"") + (client.send(h11.EndOfMessage()) or b""))
            return _answer(_events(client, connection, way.end))
    except TimeoutError as error:
        raise FetchError(str(place), "it takes too long") from error
    except (OSError, h11.ProtocolError) as error:
        raise FetchError(str(place), one_line(str(error), MAX_SHOWN)) from error


def _connected(place: Url, way: _Way) -> socket.socket:
    connection = way.connect(place)
    if place.scheme == "http":
        return connection
    try:
        connection.settimeout(_left(way.end))
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
            connection.settimeout(_left(end))
            client.receive_data(connection.recv(CHUNK_BYTES))
            continue
        yield event
        if event is h11.PAUSED or isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return


def _answer(events: Iterator[Any]) -> _Answer:
    import h11  # noqa: PLC0415

    response = next(each for each in events if isinstance(each, h11.Response))
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in response.headers}
    kind, _, parameters = headers.get("content-type", "").partition(";")
    charset = _CHARSET.search(parameters)
    location = headers.get("location", "")
    packed = headers.get("content-encoding", "").lower() in {"gzip", "x-gzip"}
    data = (bytes(each.data) for each in events if isinstance(each, h11.Data))
    is_read = not (location and response.status_code in _REDIRECTS)
    body, is_cut = _body(_unpacked(data) if packed else data) if is_read else (b"", False)
    return _Answer(
        response.status_code,
        kind.strip().lower(),
        charset[1] if charset else "",
        location,
        body,
        is_cut,
    )


def _body(chunks: Iterable[bytes]) -> tuple[bytes, bool]:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_BYTES:
            return bytes(body[:MAX_BYTES]), True
    return bytes(body), False


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack gzip in small pieces: a few kilobytes can stand for gigabytes."""
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    for chunk in chunks:
        rest = chunk
        while rest:
            try:
                yield unpacker.decompress(rest, CHUNK_BYTES)
            except zlib.error as error:
                raise OSError(f"its gzip is broken ({error})") from error
            rest = unpacker.unconsumed_tail


def _page(place: Url, answer: _Answer) -> Page:
    kind = answer.kind or ("text/plain" if b"\0" not in answer.body else "")
    if not (kind in _HTML or _TEXT.fullmatch(kind)):
        raise FetchError(str(place), f"it is no text ({one_line(kind, MAX_SHOWN) or 'unknown'})")
    text = _decoded(answer)
    if kind in _HTML:
        text = _markdown(place, text)
    text = clean_text(normalize_line_ends(text)).text
    return Page(str(place), answer.status, kind, text, len(answer.body), answer.is_cut)


def _decoded(answer: _Answer) -> str:
    """Decode by what the server says, else as UTF-8; `bytes.decode` knows encodings of text alone."""
    try:
        return answer.body.decode(answer.charset or "utf-8", errors="replace")
    except LookupError:
        return answer.body.decode("utf-8", errors="replace")


def _markdown(place: Url, html: str) -> str:
    command = [sys.executable, "-I", str(Path(markdown.__file__)), str(MAX_BYTES)]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            input=html.encode("utf-8", errors="replace"),
            capture_output=True,
            timeout=CONVERT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchError(str(place), "its HTML takes too long to convert") from error
    if done.returncode:
        raise FetchError(str(place), "its HTML cannot be converted: it is broken or too large")
    return done.stdout.decode("utf-8", errors="replace")
