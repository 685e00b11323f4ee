"""Downloads by HTTPS: bounded, from public addresses, as the server sends them and never unpacked on the way.

Where a person typed a host, just that one may be a private address, and be spoken to without TLS if that was
typed, too. Redirects, and what an index names, lead to `https://` at public addresses alone. The metadata
service of a cloud is out of reach in any case.
"""

import hashlib
import ipaddress
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

from skills_agent.packages.address import Address
from skills_agent.packages.archive import from_archive
from skills_agent.packages.errors import PackageError, not_offered
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import (
    AddressRefusedError,
    HostUnknownError,
    IsAllowed,
    is_public,
    resolve,
)
from skills_agent.skills.network.get import Response, Way, get
from skills_agent.skills.network.hosts import FetchError, NetTarget, Url, parse_url

SECONDS: Final = 300.0
"""For everything that one address leads to."""
_RESOLVE_SECONDS: Final = 10.0
_OK: Final = 200
_GONE: Final = frozenset({404, 410})
_METADATA: Final = frozenset({"168.63.129.16", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"})
_NOWHERE: Final = "255.255.255.255"
"""No connection goes there, on any system."""


class Site:
    """What may be asked while one address is fetched."""

    def __init__(self, address: Address) -> None:
        """Take the host of an address, if a person typed it. Raises PackageError."""
        self._package = address.text
        self._end = monotonic() + SECONDS
        is_host = address.is_typed and address.place.startswith(("https://", "http://"))
        self._typed = self.parsed(address.place) if is_host else None

    def refused(self, reason: str) -> PackageError:
        """Return the error that says why nothing comes of this address."""
        return not_offered(self._package, reason)

    def parsed(self, url: str, base: str = "") -> Url:
        """Return a URL in its parts; one that is relative is read from `base`. Raises PackageError."""
        try:
            return parse_url(url.partition("#")[0], base)
        except FetchError as error:
            raise self.refused(str(error).rstrip(".")) from error

    def read(self, url: str, max_bytes: int) -> tuple[str, bytes] | None:
        """Return where a URL leads in the end, and what that gives; None for nothing. Raises PackageError."""
        with self._answer(url) as answer:
            if answer.status in _GONE:
                return None
            return str(answer.place), b"".join(self._checked(answer, max_bytes))

    def save(self, url: str, file: Path, max_bytes: int) -> str:
        """Write what a URL gives into a new file, and return its SHA-256. Raises PackageError."""
        digest = hashlib.sha256()
        with self._answer(url) as answer, file.open("xb") as copy:
            for piece in self._checked(answer, max_bytes):
                digest.update(piece)
                copy.write(piece)
        return digest.hexdigest()

    def addresses_of(self, target: NetTarget) -> tuple[str, ...]:
        """Return where a host is, if that is allowed: who asks again could get another answer.

        Raises PackageError.
        """
        try:
            found = resolve(target, is_allowed=is_public, seconds=_RESOLVE_SECONDS)
        except AddressRefusedError as error:
            raise self.refused(f"{str(error).rstrip('.')}{self.advice}") from error
        except HostUnknownError:  # behind a proxy nobody here knows names, and ssh may know others
            return (_NOWHERE,)
        return tuple(str(place[0]) for *_, place in found)

    @property
    def advice(self) -> str:
        """Return what a person can do about a host that nobody typed; empty for one that somebody did."""
        if self._typed:
            return ""
        command = f"skills-agent skills install {shlex.quote(self._package)} --dry-run"
        return f". A lock names it, and nobody has typed it on this machine. If you mean it: {command}"

    @contextmanager
    def _answer(self, url: str) -> Iterator[Response]:
        way = Way(os.environ, self._addresses_for, self._end)
        try:
            with get(self.parsed(url), way) as answer:
                yield answer
        except FetchError as error:
            raise self.refused(f"{error.url}: {error.reason}") from error
        except NetworkError as error:
            advice = self.advice if isinstance(error, AddressRefusedError) else ""
            raise self.refused(f"{str(error).rstrip('.')}{advice}") from error

    def _checked(self, answer: Response, max_bytes: int) -> Iterator[bytes]:
        if answer.status != _OK:
            raise self.refused(f"{answer.place} answers with HTTP {answer.status}")
        size = 0
        for piece in answer.pieces:
            size += len(piece)
            if size > max_bytes:
                raise self.refused(f"{answer.place} has more than {max_bytes:,} bytes")
            yield piece

    def _addresses_for(self, place: Url) -> IsAllowed:
        typed = self._typed
        if typed is not None and (place.scheme, place.target) == (typed.scheme, typed.target):
            return is_no_metadata
        if place.scheme != "https":
            raise self.refused(f"{place} is no https://, and is not what was typed{self.advice}")
        return is_public


def from_url(wanted: Selection) -> tuple[OfferedSkill, ...]:
    """Offer the skills of an archive at a URL. Raises PackageError."""
    site, url, file = Site(wanted.address), wanted.address.place, wanted.into / "archive"
    site.save(url, file, wanted.limits.max_bytes)
    return from_archive(file, wanted, url)


def is_no_metadata(address: str) -> bool:
    """Return whether an address is one that somebody may mean: no metadata service, and no link-local one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None) or parsed
    is_special = mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified
    return not is_special and str(mapped) not in _METADATA
