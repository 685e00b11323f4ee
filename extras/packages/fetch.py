"""One way to each kind of place."""

from pathlib import Path

from skills_agent.packages.archive import from_archive
from skills_agent.packages.download import from_url
from skills_agent.packages.git import from_git
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.packages.staging import stage
from skills_agent.packages.well_known import from_well_known


def fetch(wanted: Selection) -> tuple[OfferedSkill, ...]:
    """Reach a place by its kind, and copy what is wanted, by name. Raises PackageError."""
    place = Path(wanted.address.place)
    match wanted.address.kind:
        case "folder":
            return stage(place, wanted)
        case "archive":
            return from_archive(place, wanted)
        case "git":
            return from_git(wanted)
        case "url":
            return from_url(wanted)
        case "well-known":
            return from_well_known(wanted)
