"""One way to each kind of place."""

from pathlib import Path
from typing import Final

from skills_agent.packages.address import Kind
from skills_agent.packages.archive import offer_of_archive
from skills_agent.packages.download import from_url
from skills_agent.packages.errors import OfferError
from skills_agent.packages.git import from_git
from skills_agent.packages.offer import Fetch, Offer, Selection
from skills_agent.packages.staging import stage
from skills_agent.packages.well_known import from_well_known


def fetch(wanted: Selection) -> Offer:
    """Reach a place by its kind, and copy what is wanted. Raises PackageError."""
    reach = _WAYS.get(wanted.address.kind)
    if reach is None:
        raise OfferError(wanted.address.text, f"a {wanted.address.kind} cannot be reached from here")
    return reach(wanted)


def from_folder(wanted: Selection) -> Offer:
    """Offer the skills of a folder on this machine."""
    return Offer(wanted.address, stage(Path(wanted.address.place), wanted))


def from_archive(wanted: Selection) -> Offer:
    """Offer the skills of an archive on this machine."""
    return offer_of_archive(Path(wanted.address.place), wanted)


_WAYS: Final[dict[Kind, Fetch]] = {
    "folder": from_folder,
    "archive": from_archive,
    "git": from_git,
    "url": from_url,
    "well-known": from_well_known,
}
