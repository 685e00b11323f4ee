"""What would be installed for the scripts of a skill: resolved, then approved, then installed as it is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from skills_agent.needs.environments import KINDS, Environments, wanted
from skills_agent.needs.packages import RESOLVE_SECONDS, Package, PackageKind, Resolved
from skills_agent.skills.skill import Need, SkillRef


@dataclass(frozen=True)
class Installation:
    """A list of packages for the scripts of a skill: what a person approves, and all that is installed."""

    resolved: tuple[Resolved, ...]
    """At most one of each kind."""
    requirements: tuple[str, ...] = ()
    """What was asked for."""
    guesses: tuple[Need, ...] = ()
    """What scripts import and nobody names a package for: left out."""
    notes: tuple[str, ...] = ()
    """Sentences about what else is left out."""

    @classmethod
    def of_record(cls, record: Mapping[str, str]) -> Self:
        """Return what `record` was made of."""
        return cls(tuple(Resolved(kind, record[kind]) for kind in KINDS if kind in record))

    @property
    def record(self) -> dict[str, str]:
        """Return it for a checkpoint: the lists, by kind."""
        return {each.kind: each.text for each in self.resolved}

    @property
    def listed(self) -> list[Package]:
        """Return its packages, by kind and name."""
        return [package for one in self.resolved for package in one.packages]

    def carry_out(
        self,
        environments: Environments,
        needs: Sequence[Need],
        skill: SkillRef | None = None,
    ) -> list[Path]:
        """Install exactly this, approve it for these needs, and return the environments.

        What is there already is not installed again. `skill` is the one that was asked about. Raises
        InstallError.
        """
        places = []
        for resolved in self.resolved:
            places.append(environments.install(resolved))
            environments.approve(needs, resolved, skill)
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
    resolved: list[Resolved] = []
    requirements: list[str] = []
    notes: list[str] = []
    guesses: tuple[Need, ...] = ()
    for kind in kinds:
        asked = wanted(needs, kind, (more or {}).get(kind, ()))
        guesses += asked.guesses
        notes += [
            f"{need.name} is left out: {need.said} has it from {need.address}, and only a registry is asked."
            for need in asked.elsewhere
        ]
        if not asked.requirements:
            continue
        requirements += asked.requirements
        resolved.append(environments.resolve(asked.requirements, kind, seconds=seconds))
    return Installation(tuple(resolved), tuple(requirements), guesses, tuple(notes))
