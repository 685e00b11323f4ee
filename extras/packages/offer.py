"""What a place of skills offers, as copies that nobody else writes: these are shown, and these installed."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from pathlib import Path
from typing import NamedTuple

from skills_agent.packages.address import Address
from skills_agent.packages.errors import PackageError, not_offered
from skills_agent.skills.errors import did_you_mean, list_names
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.visible import visible_line


class OfferedSkill(NamedTuple):
    """A skill of a place, as it is now."""

    address: Address
    name: str
    """That of its frontmatter, or of its folder: letters, digits and hyphens, by the specification."""
    folder: Path
    """Its copy. Files are readable by everybody, and executable if they were."""
    digest: str
    """Of the copy."""
    files: Mapping[str, str]
    """As in the lock."""
    path: str = ""
    """Its folder in the place."""
    resolved: str = ""
    """What to fetch for exactly this skill: a commit, the URL of an archive; empty for a folder."""
    metadata: SkillMetadata | None = None
    """What the copy's SKILL.md says; its paths are those of the copy."""

    @property
    def version(self) -> str:
        """Return what its frontmatter says; empty for none."""
        return version_of(self.metadata)


def version_of(skill: SkillMetadata | None) -> str:
    """Return the version that a frontmatter says; empty for none."""
    return (skill.version or "") if skill else ""


Listed = Mapping[str, SkillMetadata | None]
"""The skills that a place has, by name, before they are copied; None where it does not say what they are."""

Choose = Callable[[frozenset[str], Listed], frozenset[str]]
"""Returns which skills are wanted, of the names that were asked for and what a place has; none: all."""


class Selection(NamedTuple):
    """What is asked of a place."""

    address: Address
    into: Path
    """An empty folder for the copies, of this process alone."""
    names: frozenset[str] = frozenset()
    """The skills that are wanted; empty: all that there are."""
    limits: ContentLimits = ContentLimits()
    """Of each skill, and of an archive."""
    resolved: str = ""
    """Fetch exactly this, as `OfferedSkill.resolved` said it: of a repository the commit, whatever the ref
    means by now; of an index the URL. A source that has it no more raises PackageError."""
    choose: Choose | None = None
    """Asked once it is known what the place has, and before anything is copied; what it raises ends it."""
    skip: Callable[[PackageError], None] | None = None
    """Told why a skill that nobody named is passed over; None: the first reason is raised."""

    def pass_over(self, reasons: Iterable[PackageError], others: Sized) -> None:
        """Go on with the other skills, or raise the first reason: for none, and for what was named."""
        for reason in reasons:
            if self.skip is None or self.names or not others:
                raise reason
            self.skip(reason)

    def take(self, listed: Listed, copy: Callable[[str], OfferedSkill]) -> tuple[OfferedSkill, ...]:
        """Copy what is wanted of the skills that a place has, by name. Raises PackageError.

        One that cannot be copied keeps out no other (`skip`), unless it was named.
        """
        names = self.choose(self.names, listed) if self.choose else self.names
        if missing := sorted(names - listed.keys()):
            raise not_offered(
                self.address.text, f"there is no {missing[0]} in it{_other_names(missing[0], listed)}"
            )
        copies: list[OfferedSkill] = []
        reasons: list[PackageError] = []
        for name in sorted(names or listed):
            try:
                copies.append(copy(name))
            except PackageError as error:
                reasons.append(error)
        self.pass_over(reasons, copies)
        return tuple(copies)


def _other_names(missing: str, names: Collection[str]) -> str:
    if not names:
        return ": it has no skill"
    hint = did_you_mean(missing, names)
    return f". {visible_line(hint)}{hint and ' '}It has {list_names([*map(visible_line, sorted(names))])}"
