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
    resolved: str = ""
    """As `Offer.resolved`, where each skill of a place has its own."""
    archive: str = ""
    """As `Offer.archive`, where each skill has its own."""


class Offer(NamedTuple):
    """The skills of one place, as they are now."""

    address: Address
    skills: tuple[OfferedSkill, ...]
    """By name."""
    resolved: str = ""
    """What the address means now: a commit, the URL of an archive."""
    archive: str = ""
    """SHA-256 of the archive that they came in; empty for what is none."""
    archive_signature: str = ""
    """What lies beside it as `ARCHIVE.sig`: an armoured SSHSIG, unchecked; empty where there is none."""

    def resolved_of(self, skill: OfferedSkill) -> str:
        """Return what to fetch for exactly this skill."""
        return skill.resolved or self.resolved

    def archive_of(self, skill: OfferedSkill) -> str:
        """Return the SHA-256 of the archive that this skill came in; empty for none."""
        return skill.archive or self.archive


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
    market: str = ""
    """The operator's market, a file or a URL, in which names are looked up; empty: there is none."""


Fetch = Callable[[Wanted], Offer]
"""Reaches a place, and copies what is wanted. Raises PackageError."""
