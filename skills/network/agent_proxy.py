"""The proxy of the agent's own environment, where a company lets nothing out without it.

Such a proxy resolves names by itself, so nobody here can say which address it connects to. Two things stand
in for that check. Only HTTPS goes through it: a server inside the company, whose address a stranger's name
server gave, has no certificate of the URL's host, and is told nothing. And a name that has an address here,
which is not public, is not handed on.
"""

import base64
import socket
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

import httpcore

from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import (
    AddressRefusedError,
    HostUnknownError,
    IsAllowed,
    connect,
    resolve,
)
from skills_agent.skills.network.hosts import NetTarget, is_address, split_authority
from skills_agent.skills.network.timed_stream import TimedStream, patience

RESOLVE_SECONDS: Final = 3.0
"""For the look at a name's addresses here: where a proxy is, there may be no name server that knows it."""
_VARIABLES: Final = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
"""The first that is set counts, as for curl."""
_PORT: Final = 1080
"""Where the variable names none, as for curl."""


class AgentProxy(NamedTuple):
    """A proxy that a variable of the agent names."""

    variable: str
    place: NetTarget
    login: tuple[tuple[str, str], ...] = ()
    """The header with its user name and password, where it has them."""

    def connect(self, target: NetTarget, *, is_allowed: IsAllowed, seconds: float) -> socket.socket:
        """Return a connection to a target, which has to be one of TLS.

        Raises AddressRefusedError, NetworkError, what `connect` raises of the proxy itself, and OSError.
        """
        end = monotonic() + seconds
        if is_address(target.host) and not is_allowed(target.host):  # also one of a kind that is unknown here
            raise AddressRefusedError(target.host, target.host)
        with suppress(HostUnknownError):
            resolve(target, is_allowed=is_allowed, seconds=min(RESOLVE_SECONDS, seconds))
        connection = connect(self.place, is_allowed=lambda _: True, seconds=patience(end))
        url = httpcore.URL(scheme="http", host=self.place.host, port=self.place.port, target=str(target))
        request = httpcore.Request("CONNECT", url, headers=[("Host", str(target)), *self.login])
        tunnel = httpcore.HTTP11Connection(url.origin, TimedStream(connection, end))
        try:
            answer = tunnel.handle_request(request)
        except httpcore.ProtocolError as error:
            raise _failed(target, self.variable, "does not answer") from error
        if not 200 <= answer.status < 300:
            tunnel.close()
            raise _failed(target, self.variable, f"refuses it (HTTP {answer.status})")
        return connection


def proxy_for(target: NetTarget, environment: Mapping[str, str]) -> AgentProxy | None:
    """Return the proxy that leads to a target of HTTPS; None where there is none. Raises NetworkError."""
    variable = next((name for name in _VARIABLES if environment.get(name)), None)
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if variable is None or _is_exempt(target.host, exempt):
        return None
    text = environment[variable]
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = split_authority(parts.netloc.rpartition("@")[2])
    except ValueError as error:
        raise _failed(target, variable, "cannot be read") from error
    if parts.scheme != "http":
        raise _failed(target, variable, "is of another kind than http://")
    place = NetTarget(host, port or _PORT)
    if parts.username is None:
        return AgentProxy(variable, place)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    credentials = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return AgentProxy(variable, place, (("Proxy-Authorization", credentials),))


def _failed(target: NetTarget, variable: str, reason: str) -> NetworkError:
    text = f"{target} is not reached: the proxy of {variable} {reason}."
    return NetworkError(text, code="proxy-failed")


def _is_exempt(host: str, domains: str) -> bool:
    """Return whether a host is one of `NO_PROXY`, or below it."""
    names = [name.strip().lower().lstrip(".") for name in domains.split(",")]
    return "*" in names or any(name and f".{host}".endswith(f".{name}") for name in names)
