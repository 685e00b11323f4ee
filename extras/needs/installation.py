"""What would be installed for the scripts of a skill: resolved, then approved, then installed as it is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from skills_agent.needs.environments import KINDS, Environments, wanted
from skills_agent.needs.packages import RESOLVE_SECONDS, Package, PackageKind, listed
from skills_agent.skills.skill import Need, SkillRef


@dataclass(frozen=True)
class Installation:
    """Lists of packages for the scripts of a skill: what a person approves, and all that is installed."""

    lists: Mapping[PackageKind, str]
    """By kind; a checkpoint keeps them."""
    requirements: Sequence[str] = ()
    """What was asked for."""
    guesses: Sequence[Need] = ()
    """What scripts import and nobody names a package for: left out."""
    notes: Sequence[str] = ()
    """Sentences about what else is left out."""

    @classmethod
    def of_record(cls, record: Mapping[str, str]) -> Self:
        """Return what installs the `lists` of another one."""
        return cls({kind: record[kind] for kind in KINDS if kind in record})

    @property
    def packages(self) -> list[Package]:
        """Return its packages, by kind and name."""
        return [package for kind, text in self.lists.items() for package in listed(kind, text)]

    def carry_out(
        self, environments: Environments, needs: Sequence[Need], skill: SkillRef | None = None
    ) -> list[Path]:
        """Install exactly this, approve it for these needs, and return the environments.

        What is there already is not installed again. `skill` is the one that was asked about. Raises
        InstallError.
        """
        places = []
        for kind, text in self.lists.items():
            places.append(environments.install(kind, text))
            environments.approve(needs, kind, text, skill)
        return places


def prepare(
    environments: Environments,
    needs: Sequence[Need],
    *,
    kinds: Collection[PackageKind] = KINDS,
    more: Mapping[PackageKind, Sequence[str]] | None = None,
    seconds: float = RESOLVE_SECONDS,
) -> Installation:
    """Resolve what a skill needs. Installs nothing. Raises InstallError.

    `more` are requirements that a person adds, `seconds` as in `Environments.resolve`. The names
    of the packages go to the indexes of this user.
    """
    lists: dict[PackageKind, str] = {}
    requirements, guesses, notes = list[str](), list[Need](), list[str]()
    for kind in kinds:
        asked = wanted(needs, kind, (more or {}).get(kind, ()))
        guesses += asked.guesses
        notes += [
            f"{need.name} is left out: {need.said} has it from {need.address}, and only a registry is asked."
            for need in asked.elsewhere
        ]
        if asked.requirements:
            requirements += asked.requirements
            lists[kind] = environments.resolve(asked.requirements, kind, seconds=seconds)
    return Installation(lists, requirements, guesses, notes)
