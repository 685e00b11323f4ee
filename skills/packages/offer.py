"""What a place of skills holds, as copies that nobody else writes: these are shown, and these installed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.packages.address import Address


class OfferedSkill(NamedTuple):
    """A skill of an offer."""

    name: str
    """That of its frontmatter: letters, digits and hyphens, by the specification."""
    folder: Path
    """Its copy. Files are readable by everybody, and executable if they were."""
    digest: str
    """Of the copy."""
    files: Mapping[str, str]
    """As in the lock."""
    path: str = ""
    """Its folder in the place."""


class Offer(NamedTuple):
    """The skills of one place, as they are now."""

    address: Address
    skills: tuple[OfferedSkill, ...]
    """By name."""
    resolved: str = ""
    """What the address means now: a commit, the URL of an archive."""
    archive: str = ""
    """SHA-256 of the archive that they came in; empty for what is none."""


class Wanted(NamedTuple):
    """What is asked of a place."""

    address: Address
    into: Path
    """An empty folder for the copies, of this process alone."""
    names: frozenset[str] = frozenset()
    """The skills that are wanted; empty: all that there are."""
    limits: ContentLimits = ContentLimits()
    """Of each skill, and of an archive."""
    resolved: str = ""
    """Fetch exactly this, which an `Offer.resolved` of the address was: of a repository the commit, whatever
    the ref means by now; of an index the URL. A source that has it no more raises OfferError."""


Fetch = Callable[[Wanted], Offer]
"""Reaches a place, and copies what is wanted. Raises PackageError."""
