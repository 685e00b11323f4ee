"""Places that an index names, which a person typed: fetched by the rules for what nobody typed."""

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from skills_agent.skills.errors import NetworkError
from skills_agent.skills.network.addresses import HostUnknownError, is_public, resolve
from skills_agent.skills.network.hosts import Target
from skills_agent.skills.packages.address import Address, Kind, parse_address, pinned
from skills_agent.skills.packages.download import Site, shown
from skills_agent.skills.packages.errors import OfferError
from skills_agent.skills.packages.offer import Fetch, Offer, Wanted

_SECONDS: Final = 10.0
_SSH: Final = 22
_PINNED: Final = re.compile(r"(?P<url>[^#]+)#sha256=(?P<digest>[0-9a-f]{64})")


def offer_of_named(address: Address, wanted: Wanted, number: int, reach: Fetch) -> Offer:
    """Fetch a place that an index names, all of it. Raises PackageError.

    Each skill is resolved to an address that means just that. The folder of the copies is numbered.
    """
    package = wanted.address.text
    typed = wanted.typed or wanted.address.place
    if address.kind == "git":
        check_host(address, wanted._replace(typed=typed))
    into = wanted.into / f"place-{number}"
    into.mkdir()
    inner = wanted._replace(address=address, into=into, typed=typed, resolved="", choose=None)
    try:
        offer = reach(inner)
    except OfferError as error:
        raise OfferError(package, f"of {error.address}, which it names: {error.reason}") from error
    skills = tuple(
        each._replace(
            resolved=pinned(address, offer.resolved_of(each)) or address.place,
            archive=offer.archive_of(each),
            archive_signature=offer.signature_of(each),
            archive_check=offer.check_of(each),
        )
        for each in offer.skills
    )
    return Offer(wanted.address, skills)


def offer_of_pinned(wanted: Wanted, kinds: Collection[Kind], reach: Fetch) -> Offer:
    """Fetch what a skill was resolved to by an index. Raises PackageError."""
    if not (is_pinned_place(wanted.resolved) or wanted.resolved.startswith("/")):
        raise OfferError(wanted.address.text, f"{shown(wanted.resolved)} is nothing that it may name")
    match = _PINNED.fullmatch(wanted.resolved)
    address = parse_address(match["url"] if match else wanted.resolved, Path("/"))
    if address.kind not in kinds or (address.place.startswith("file:") and "folder" not in kinds):
        raise OfferError(wanted.address.text, f"{shown(wanted.resolved)} is nothing that it may name")
    offer = offer_of_named(address, wanted, 0, reach)
    if match and (wrong := [each for each in offer.skills if each.archive != match["digest"]]):
        raise OfferError(wanted.address.text, f"{match['url']} has other bytes now: {wrong[0].archive[:12]}")
    skills = tuple(each._replace(resolved=wanted.resolved) for each in offer.skills)
    return offer._replace(skills=skills)


def is_pinned_place(resolved: str) -> bool:
    """Return whether what a skill was resolved to is a place, and no commit of the address itself."""
    return "://" in resolved or "@" in resolved


def check_host(address: Address, wanted: Wanted) -> None:
    """Refuse a repository at an address that nobody typed and that is no public one."""
    if wanted.typed.startswith(("file:", "/")) and address.place.startswith("file:"):
        return
    site = Site(wanted)
    if "://" not in address.place:
        target = Target(address.place.partition("@")[2].partition(":")[0], _SSH)
    elif address.place.startswith(("https://", "http://")):
        place = site.place_of(address.place)
        if site.is_typed(place):
            return
        target = place.target
    elif address.place.startswith("ssh://"):
        parts = urlsplit(address.place)
        target = Target(parts.hostname or "", parts.port or _SSH)
    else:
        raise site.refused(f"{shown(address.text)} is reached neither by https nor by ssh")
    try:
        with suppress(HostUnknownError):  # behind a proxy nobody here knows names
            resolve(target, is_allowed=is_public, seconds=_SECONDS)
    except NetworkError as error:
        raise site.refused(str(error).rstrip(".")) from error
