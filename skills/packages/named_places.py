"""Places that an index names, which a person typed: fetched by the rules for what nobody typed."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from skills_agent.skills.packages.address import Address, Kind, parse_address, pinned
from skills_agent.skills.packages.download import shown
from skills_agent.skills.packages.errors import OfferError
from skills_agent.skills.packages.offer import Fetch, Offer, Wanted

_PINNED: Final = re.compile(r"(?P<url>[^#]+)#sha256=(?P<digest>[0-9a-f]{64})")


def offer_of_named(address: Address, wanted: Wanted, number: int, reach: Fetch) -> Offer:
    """Fetch a place that an index names, all of it. Raises PackageError.

    Each skill is resolved to an address that means just that. The folder of the copies is numbered.
    """
    package = wanted.address.text
    address = address.named_by(wanted.address)
    into = wanted.into / f"place-{number}"
    into.mkdir()
    inner = wanted._replace(address=address, into=into, resolved="", choose=None)
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
