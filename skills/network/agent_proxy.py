"""The proxy of the agent's own environment, where a company lets nothing out without it.

Such a proxy resolves names by itself, so nobody here can say which address it connects to. Two things stand
in for that check. Only HTTPS goes through it: a server inside the company, whose address a stranger's name
server gave, has no certificate of the URL's host, and is told nothing. And a name that has an address here,
which is not public, is not handed on.
"""

import base64
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import (
    AddressRefusedError,
    HostUnknownError,
    IsAllowed,
    connect,
    resolve,
)
from skills_agent.skills.network.hosts import NetTarget, is_address, split_authority

RESOLVE_SECONDS: Final = 3.0
"""For the look at a name's addresses here: where a proxy is, there may be no name server that knows it."""
_VARIABLES: Final = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
"""The first that is set counts, as for curl."""
_PORT: Final = 1080
"""Where the variable names none, as for curl."""
_HEAD_BYTES: Final = 1 << 14
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})\b")


class AgentProxy(NamedTuple):
    """A proxy that a variable of the agent names."""

    variable: str
    place: NetTarget
    credentials: str = ""
    """As the header `Proxy-Authorization` has them."""

    def connect(self, target: NetTarget, *, is_allowed: IsAllowed, seconds: float) -> socket.socket:
        """Return a connection to a target, which has to be one of TLS.

        Raises AddressRefusedError, NetworkError, what `connect` raises of the proxy itself, and OSError.
        """
        if is_address(target.host) and not is_allowed(target.host):  # also one of a kind that is unknown here
            raise AddressRefusedError(target.host, target.host)
        with suppress(HostUnknownError):
            resolve(target, is_allowed=is_allowed, seconds=min(RESOLVE_SECONDS, seconds))
        connection = connect(self.place, is_allowed=lambda _: True, seconds=seconds)
        try:
            connection.settimeout(seconds)
            self._ask(connection, target)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self, connection: socket.socket, target: NetTarget) -> None:
        login = f"Proxy-Authorization: {self.credentials}\r\n" if self.credentials else ""
        connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode())
        head = b""
        # Nothing follows its end before TLS begins.
        while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES and (piece := connection.recv(_HEAD_BYTES)):
            head += piece
        status = _STATUS.match(head)
        if status is None or not head.endswith(b"\r\n\r\n"):
            raise _failed(target, self.variable, "does not answer")
        if not status[1].startswith(b"2"):
            raise _failed(target, self.variable, f"refuses it (HTTP {status[1].decode()})")


def proxy_for(target: NetTarget, environment: Mapping[str, str]) -> AgentProxy | None:
    """Return the proxy that leads to a target of HTTPS; None where there is none. Raises NetworkError."""
    variable = next((name for name in _VARIABLES if environment.get(name)), None)
    if variable is None:
        return None
    if _is_exempt(target.host, environment.get("no_proxy") or environment.get("NO_PROXY") or ""):
        return None
    text = environment[variable]
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = split_authority(parts.netloc.rpartition("@")[2])
    except ValueError as error:
        raise _failed(target, variable, "cannot be read") from error
    if parts.scheme != "http":
        raise _failed(target, variable, "is of another kind than http://")
    credentials = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credentials = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return AgentProxy(variable, NetTarget(host, port or _PORT), credentials)


def _failed(target: NetTarget, variable: str, reason: str) -> NetworkError:
    text = f"{target} is not reached: the proxy of {variable} {reason}."
    return NetworkError(text, code="proxy-failed")


def _is_exempt(host: str, domains: str) -> bool:
    """Return whether a host is one of `NO_PROXY`, or below it."""
    names = [name.strip().lower().lstrip(".") for name in domains.split(",")]
    return "*" in names or any(name and f".{host}".endswith(f".{name}") for name in names)
