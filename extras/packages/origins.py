"""Where an address is from, typed by a person or named by a lock or an index; and what it may reach for that.

What somebody else's file names may be at no address of this machine or its network. `Address.is_typed` says
it; downloads ask it (download.py), and here a repository does, and a lock.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from skills_agent.packages.address import Address, parse_address
from skills_agent.packages.download import Site
from skills_agent.packages.journal import is_own, make_own
from skills_agent.skills.network.hosts import PORTS, NetTarget

_PORTS: Final = {**PORTS, "ssh": 22}
_HOSTS: Final = "hosts"
"""The file with what was typed, in a folder of the user's state."""


def check_host(address: Address) -> tuple[str, ...]:
    """Return the addresses where git may ask for a repository; none: wherever what was typed leads.

    Raises PackageError for an address that nobody typed and that is no public one.
    """
    if address.is_typed:
        return ()
    site, (scheme, target) = Site(address), reached(address)
    if scheme not in {"https", "ssh"} or target is None:
        raise site.refused(f"it is reached neither by https nor by ssh{site.advice}")
    return site.addresses_of(target)


def parse_locked(text: str, base: Path, hosts: Collection[str] | None) -> Address:
    """Take apart the address of a lock: typed, if its host was (`hosts`; None: the lock is a person's own).

    Raises PackageError.
    """
    address = parse_address(text, base)
    is_typed = hosts is None or address.is_near or _host_of(address) in hosts
    return replace(address, is_typed=is_typed)


def typed_hosts(state: Path) -> frozenset[str]:
    """Return the hosts of addresses that the user typed on this machine."""
    folder = state / "typed"
    with suppress(OSError):
        if is_own(folder):
            return frozenset((folder / _HOSTS).read_text(encoding="utf-8").splitlines())
    return frozenset()


def note_typed(state: Path, address: Address) -> None:
    """Note the host of an address that the user typed: locks may name it from now on."""
    host = "" if address.is_near else _host_of(address)
    if host and host not in typed_hosts(state):
        with suppress(OSError):
            make_own(state / "typed")
            with (state / "typed" / _HOSTS).open("a", encoding="utf-8") as file:
                file.write(f"{host}\n")


def _host_of(address: Address) -> str:
    """Return scheme, host and port of an address; empty for a place without."""
    scheme, target = reached(address)
    return f"{scheme}://{target}" if target else ""


def reached(address: Address) -> tuple[str, NetTarget | None]:
    """Return scheme, host and port of an address; of a place on this machine no host."""
    place = address.place
    if "://" not in place:  # git@host:owner/repo
        place = f"ssh://{place.replace(':', '/', 1)}"
    parts = urlsplit(place)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return parts.scheme, NetTarget(parts.hostname, port) if parts.hostname else None
