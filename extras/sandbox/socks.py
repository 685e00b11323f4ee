"""SOCKS 5 (RFC 1928) as a proxy hears it: one request of a program, and the answer to it.

Only CONNECT is understood, without a password. A name is the proxy's to resolve (`socks5h`).
"""

import ipaddress
import socket
from typing import Final

from skills_agent.skills.errors import DetailedError, NetworkError
from skills_agent.skills.network.hosts import Target, split_authority

VERSION: Final = b"\x05"
DONE: Final = 0
NOT_ALLOWED: Final = 2
_COMMAND_UNKNOWN: Final = 7
_ADDRESS_UNKNOWN: Final = 8
_NO_PASSWORD: Final = 0
_NO_METHOD: Final = 0xFF
_CONNECT: Final = 1


class SocksError(DetailedError, NetworkError):
    """A request that is not understood."""

    sentence = "A request of SOCKS is not understood: {reason}."
    reason: str
    status: int
    """What the answer says of it, by RFC 1928."""


def read_target(client: socket.socket) -> Target:
    """Return where a program wants to go. Raises SocksError, and OSError where the connection breaks."""
    _, number = _read(client, 2)
    if _NO_PASSWORD not in _read(client, number):
        client.sendall(bytes([*VERSION, _NO_METHOD]))
        raise OSError("it insists on a password")
    client.sendall(bytes([*VERSION, _NO_PASSWORD]))
    version, command, _, kind = _read(client, 4)
    if version != VERSION[0] or command != _CONNECT:
        raise SocksError("it is no CONNECT", _COMMAND_UNKNOWN)
    host = _read_host(client, kind)
    return Target(host, int.from_bytes(_read(client, 2), "big"))


def answer(status: int) -> bytes:
    """Return the answer to a request; the address that the proxy connects from stays unsaid."""
    return bytes([*VERSION, status, 0, 1, *bytes(6)])


def _read_host(client: socket.socket, kind: int) -> str:
    match kind:
        case 1:
            return str(ipaddress.IPv4Address(_read(client, 4)))
        case 4:
            return str(ipaddress.IPv6Address(_read(client, 16)))
        case 3:
            name = _read(client, _read(client, 1)[0]).decode("latin-1")
            try:
                host, port = split_authority(name)
            except ValueError as error:
                raise SocksError("its host cannot be read", _ADDRESS_UNKNOWN) from error
            if port is None:
                return host
    raise SocksError("its host cannot be read", _ADDRESS_UNKNOWN)


def _read(client: socket.socket, size: int) -> bytes:
    """Read just so many bytes: what comes after them is for the host."""
    read = b""
    while len(read) < size:
        if not (chunk := client.recv(size - len(read))):
            raise OSError("the program is gone")
        read += chunk
    return read
