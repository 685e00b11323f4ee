"""Hosts as policy compares them: of a URL, of a request to a proxy, and patterns of what is permitted.

A URL is taken apart once, strictly, and its parts are used from then on: two parsers that disagree are how a
check is passed by.
"""

import re
from contextlib import suppress
from typing import Final, NamedTuple, Self
from urllib.parse import quote, urljoin, urlsplit

from skills_agent.skills.errors import DetailedError, NetworkError
from skills_agent.skills.text import one_line

PORTS: Final[dict[str, int]] = {"http": 80, "https": 443}
MAX_URL: Final = 4_000
MAX_SHOWN: Final = 200
_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_PORT: Final = re.compile(r"[0-9]{1,5}")
_ODD: Final = re.compile(r"[\x00-\x20\x7f\\]")
_KEPT: Final = "%/?:@!$&'()*+,;=~-._"
"""What stands in a path or a query as it is (RFC 3986)."""


class FetchError(DetailedError, NetworkError):
    """What is not fetched, could not be, or is nothing to read."""

    sentence = "{url} is not fetched: {reason}."
    url: str
    reason: str


class NetTarget(NamedTuple):
    """One place that a connection goes to."""

    host: str
    """A name in lower case without the last dot, or an address without brackets."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Url(NamedTuple):
    """A URL in its parts, as it is sent."""

    scheme: str
    target: NetTarget
    path: str
    """With the query, in ASCII."""

    @property
    def authority(self) -> str:
        """Return the host as a `Host` header has it."""
        host, port = self.target
        shown = f"[{host}]" if ":" in host else host
        return shown if port == PORTS[self.scheme] else f"{shown}:{port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


class HostPattern(NamedTuple):
    """Some hosts: one, or all below a domain."""

    host: str
    """Without `*.`."""
    below: bool
    """Whether the hosts below it are meant, at any depth, and not itself."""
    port: int | None
    """None: those of HTTP and HTTPS."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what `api.github.com`, `*.example.com` or `example.com:8443` means.

        `domain:example.com`, as Claude Code writes it, is the same as `example.com`. Raises NetworkError.
        """
        plain = text.strip().removeprefix("domain:").strip()
        below = plain.startswith("*.")
        try:
            host, port = split_authority(plain.removeprefix("*."))
        except ValueError as error:
            raise _no_host(text) from error
        if below and (
            "." not in host or ":" in host or is_address(host)
        ):  # of `*.com` nobody knows the hosts
            raise _no_host(text)
        return cls(host, below, port)

    def permits(self, target: NetTarget) -> bool:
        """Return whether a connection goes to one of these hosts."""
        return self.takes_in(self.of(target))

    @classmethod
    def of(cls, target: NetTarget) -> Self:
        """Return the pattern of one target."""
        return cls(target.host, below=False, port=target.port)

    def takes_in(self, other: "HostPattern") -> bool:
        """Return whether every connection that another pattern permits is one of these."""
        if self.port != other.port and not (self.port is None and other.port in PORTS.values()):
            return False
        return self.is_around(other)

    def touches(self, other: "HostPattern") -> bool:
        """Return whether a connection that another pattern permits may be one of these.

        For bans, so without a port every port counts.
        """
        if self.port is not None and (other.port or self.port) != self.port:
            return False
        return self.is_around(other) or other.is_around(self)

    def is_around(self, other: "HostPattern") -> bool:
        """Return whether every host of another pattern is one of these, whatever the ports."""
        if self.below:
            return other.host.endswith(f".{self.host}") or (other.below and other.host == self.host)
        return not other.below and other.host == self.host

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return ("*." if self.below else "") + host + ("" if self.port is None else f":{self.port}")


def _no_host(text: str) -> NetworkError:
    advice = "write api.example.com, *.example.com, or api.example.com:8443"
    return NetworkError(f"{one_line(text, MAX_SHOWN)} is no host: {advice}.", code="host-pattern")


def split_authority(text: str) -> tuple[str, int | None]:
    """Return host and port of `host`, `host:port` or `[address]:port`. Raises ValueError for anything else.

    A number, as in `http://2130706433`, is a name here: what it means is seen when it is resolved.
    """
    if text.startswith("["):
        import ipaddress  # noqa: PLC0415 - `skills list` imports this module

        inside, _, rest = text[1:].partition("]")
        host = str(ipaddress.IPv6Address(inside))
        if "%" in inside or (rest and not rest.startswith(":")):
            raise ValueError(text)
        port = rest[1:] if rest else None
    else:
        name, colon, number = text.partition(":")
        host, port = name.lower().removesuffix("."), number if colon else None
        if not _NAME.fullmatch(host):
            raise ValueError(text)
    if port is None:
        return host, None
    if not _PORT.fullmatch(port) or not 0 < int(port) < 1 << 16:
        raise ValueError(text)
    return host, int(port)


def parse_url(text: str, base: str = "") -> Url:
    """Return a URL in its parts; one that is relative is read from `base`. Raises FetchError.

    Refused are user names in it (`https://api.github.com@evil.example`), control characters, blanks and
    backslashes, which parsers read in different ways, and hosts that are not written in ASCII.
    """
    shown = one_line(text, MAX_SHOWN)
    if _ODD.search(text):
        raise FetchError(shown, "it holds a blank, a backslash or a control character")
    try:
        parts = urlsplit(whole := urljoin(base, text))
    except ValueError as error:
        raise FetchError(shown, "its host cannot be read") from error
    if len(whole) > MAX_URL:
        raise FetchError(shown, f"it is longer than {MAX_URL:,} characters")
    if parts.scheme not in PORTS:
        raise FetchError(shown, "only http:// and https:// are")
    if "@" in parts.netloc:
        raise FetchError(shown, "it holds a user name")
    try:
        host, port = split_authority(parts.netloc)
    except ValueError as error:
        raise FetchError(
            shown, "its host cannot be read (a name in other letters is written as xn--...)"
        ) from error
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    target = NetTarget(host, port or PORTS[parts.scheme])
    return Url(parts.scheme, target, (quote(parts.path, safe=_KEPT) or "/") + query)


def is_address(host: str) -> bool:
    """Return whether a host is an address, and no name."""
    import ipaddress  # noqa: PLC0415

    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False
