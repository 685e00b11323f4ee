"""Connect to public addresses alone: a name is resolved once, and what was checked is connected to.

So neither a redirect nor an answer of a name server (DNS rebinding) leads to this machine, to its neighbours
or to the metadata service of a cloud.
"""

import ipaddress
import socket
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from threading import Thread
from time import monotonic
from typing import Any, Final

from skills_agent.skills.errors import DetailedError, NetworkError
from skills_agent.skills.network.hosts import NetTarget
from skills_agent.skills.text import cause_of

CONNECT_SECONDS: Final = 10.0
"""For one address, and for a name before it."""
_WIRE_SERVER: Final = IPv4Address("168.63.129.16")
"""Azure's host, which gives its machines their secrets: a public address that is none."""
_PROTOCOLS: Final = IPv4Network("192.0.0.0/24")
"""Of the IETF: Oracle's metadata service is among them. Python counts them as private only since 3.11.9."""
_NAT64: Final = IPv6Network("64:ff9b::/96")

IsAllowed = Callable[[str], bool]


class HostUnknownError(DetailedError, NetworkError):
    """A name that no name server knows."""

    sentence = "{host} has no address: {cause}."
    host: str
    cause: str


class AddressRefusedError(DetailedError, NetworkError):
    """A host whose address is not a public one."""

    sentence = (
        "{host} is not connected to: {address} is no public address. This machine, its network and "
        "the metadata service of a cloud are out of reach."
    )
    host: str
    address: str


def is_public(address: str) -> bool:
    """Return whether an address is one of the internet, by the registries of IANA.

    An address of NAT64 is what it stands for. Other forms that hold an IPv4 address are no public ones.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        if parsed.sixtofour or parsed.is_site_local:
            return False
        if parsed in _NAT64:
            parsed = IPv4Address(int(parsed) & 0xFFFF_FFFF)
    is_special = parsed.is_multicast or parsed.is_reserved or parsed.is_unspecified
    is_special |= parsed == _WIRE_SERVER or parsed in _PROTOCOLS
    return parsed.is_global and not is_special


def connect(
    target: NetTarget, *, is_allowed: IsAllowed = is_public, seconds: float = 3 * CONNECT_SECONDS
) -> socket.socket:
    """Return a connection to a target whose addresses are all allowed.

    Raises HostUnknownError, AddressRefusedError or NetworkError. `is_allowed` is for tests, whose
    servers are on this machine.
    """
    end = monotonic() + seconds
    answers = resolve(target, is_allowed=is_allowed, seconds=min(CONNECT_SECONDS, seconds))
    cause = OSError("it has no address")
    for family, kind, protocol, _, place in answers:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(max(0.1, min(CONNECT_SECONDS, end - monotonic())))
        try:
            connection.connect(place)
        except OSError as error:
            connection.close()
            cause = error
            if monotonic() > end:
                break
        else:
            with suppress(OSError):  # an answer that waits for an acknowledgement is slow, and right
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
    raise NetworkError(f"{target} cannot be reached: {cause_of(cause)}.") from cause


def resolve(target: NetTarget, *, is_allowed: IsAllowed, seconds: float) -> list[Any]:
    """Return what `getaddrinfo` does, in time, where all its addresses are allowed.

    Raises HostUnknownError and AddressRefusedError.
    """
    answers: Future[list[Any]] = Future()

    def look_up() -> None:
        try:
            answers.set_result(socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.set_exception(error)

    Thread(target=look_up, daemon=True).start()
    try:
        resolved = answers.result(seconds)
    except TimeoutError as error:
        raise HostUnknownError(target.host, f"no answer within {seconds:g} seconds") from error
    except (OSError, UnicodeError) as error:
        raise HostUnknownError(target.host, cause_of(error)) from error
    addresses = [str(place[0]) for *_, place in resolved]
    # One that is not allowed among others is no mistake of a public host.
    if refused := next((address for address in addresses if not is_allowed(address)), None):
        raise AddressRefusedError(target.host, refused)
    return resolved
