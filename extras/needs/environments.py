"""Environments of packages that a person approved, outside of every sandbox and of the agent's own.

A list of needs is resolved to names, versions and hashes; what a person approves is that list, and what is
installed is that list and nothing else. No code of a package runs on the way. Scripts run with it later, in
their sandbox. An environment is kept by the digest of its list, and an approval by the digest of the needs:
where a skill needs something else, a person is asked again.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final, NamedTuple, get_args

from msgspec import structs

from skills_agent.needs import node_packages, python_packages
from skills_agent.needs.known_names import is_known
from skills_agent.needs.node_files import is_version
from skills_agent.needs.packages import (
    RESOLVE_SECONDS,
    PackageKind,
    PackageTools,
    environment_of,
    platform_of,
)
from skills_agent.skills import posix
from skills_agent.skills.confined import write_own_file
from skills_agent.skills.skill import LEARNED, Need, SkillRef
from skills_agent.skills.trees import remove_tree

COMPLETE: Final = "complete"
"""The file that an environment gets when all of it is there."""
KINDS: Final[tuple[PackageKind, ...]] = get_args(PackageKind)
_MAKERS: Final = {"python": python_packages, "node": node_packages}


class WantedEnvironment(NamedTuple):
    """What an environment for a list of needs would be asked for."""

    requirements: tuple[str, ...]
    """In the form of PEP 508, or `name@version` of npm; sorted."""
    guesses: tuple[Need, ...]
    """What a script imports and nobody names a package for: a package of that name may be anybody's."""
    elsewhere: tuple[Need, ...] = ()
    """What its author has from an address: no registry is asked for it."""


def wanted(needs: Iterable[Need], kind: PackageKind, more: Iterable[str] = ()) -> WantedEnvironment:
    """Return what an environment for these needs has to hold; `more` are requirements that a person adds.

    What is optional is one of these. A module that the agent's own Python has is brought by the distribution
    that it has it from.
    """
    own = [need for need in _of_kind(needs, kind) if not need.optional]
    elsewhere = tuple(need for need in own if need.address)
    unknown = [need for need in own if need.module and not is_known(need)]
    here = packages_distributions() if unknown and kind == "python" else {}
    named = [need for need in own if need not in (*elsewhere, *unknown)]
    texts = {need.name: requirement_of(need) for need in named}
    texts |= {name: name for need in unknown for name in here.get(need.module, ())[:1]}
    texts |= {text.rpartition("@")[0] or text: text for text in more}  # for Node, in place of the skill's own
    guesses = tuple(need for need in unknown if need.module not in here)
    return WantedEnvironment(tuple(sorted(texts.values())), guesses, elsewhere)


@dataclass(frozen=True, kw_only=True)
class Environments(PackageTools):
    """The environments beneath one folder of a user, and which needs each of them is approved for."""

    @property
    def approvals(self) -> Path:
        """Return the folder of what persons approved."""
        return self.folder / "approved"

    def of(self, needs: Iterable[Need], kind: PackageKind) -> Path | None:
        """Return the environment that a person approved for exactly these needs; None without one."""
        if not (needs := _of_kind(needs, kind)):
            return None
        try:
            record = json.loads(self.record_of(needs, kind).read_bytes())
            place = self.folder / str(record["environment"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return place if place.parent == self.folder and (place / COMPLETE).is_file() else None

    def resolve(
        self, requirements: Sequence[str], kind: PackageKind, *, seconds: float = RESOLVE_SECONDS
    ) -> str:
        """Return the list that meets these requirements. Raises InstallError."""
        text: str = _MAKERS[kind].resolve(self, requirements, seconds=seconds)
        return text

    def install(self, kind: PackageKind, text: str) -> Path:
        """Return the environment with exactly the packages of a list; it is made if it is not there.

        One that was cut off while it was made is made anew. Raises InstallError.
        """
        place = self.folder / environment_of(kind, text)
        with self.alone():
            if (place / COMPLETE).is_file():
                return place
            remove_tree(place)
            _MAKERS[kind].install(self, text, place)
            (place / COMPLETE).touch()
        return place

    def approve(
        self, needs: Sequence[Need], kind: PackageKind, text: str, skill: SkillRef | None = None
    ) -> None:
        """Keep a person's word that scripts with these needs may run with the packages of a list.

        `skill` is the one that was asked about.
        """
        content = {
            "environment": environment_of(kind, text),
            "needs": sorted(each.text for each in _of_kind(needs, kind)),
            "learned": [structs.asdict(need) for need in needs if need.said == LEARNED],
            "skills": [{"name": skill.name, "path": skill.path}] if skill else [],
        }
        write_own_file(self.record_of(needs, kind), json.dumps(content).encode())

    def record_of(self, needs: Iterable[Need], kind: PackageKind) -> Path:
        """Return the file that keeps a person's word about these needs."""
        lines = sorted(_line_of(need) for need in _of_kind(needs, kind))
        name = hashlib.sha256("\n".join([platform_of(kind), *lines]).encode()).hexdigest()
        return self.approvals / f"{name}.json"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from making the same environment meanwhile."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            posix.fcntl.flock(file, posix.fcntl.LOCK_EX)
            yield


def _of_kind(needs: Iterable[Need], kind: PackageKind) -> list[Need]:
    return [need for need in needs if need.kind == kind]


def _line_of(need: Need) -> str:
    address = f" {need.address}" if need.address else ""
    return f"{requirement_of(need)} {need.module}{address}" + " ?" * need.optional


def requirement_of(need: Need) -> str:
    """Return a need in the form of PEP 508, of a Node package as npm takes it: `sharp@^0.33`.

    A version that is of the other one is left out.
    """
    if need.kind == "node":
        version = need.specifier.replace("==", "=").replace(",", " ")
        return f"{need.name}@{version if version and is_version(version) else 'latest'}"
    extras = f"[{','.join(need.extras)}]" if need.extras else ""
    specifier = need.specifier if need.specifier[:1] != "^" else ""
    return f"{need.name}{extras}{specifier}" + (f"; {need.marker}" if need.marker else "")
