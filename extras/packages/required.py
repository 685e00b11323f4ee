"""What the skills that are installed require: of what is here, and of what their place offers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from skills_agent.packages.offer import Listed
from skills_agent.skills.format.requirements import Requirement, meets, requirement_of, version_text

State = Literal["met", "added", "other-version", "missing", "cycle"]

Versions = Mapping[str, str]
"""Of skills by name; empty for one that says none."""


class RequiredSkill(msgspec.Struct, frozen=True):
    """A requirement of a skill that is to be installed, and what becomes of it."""

    requirement: str
    """As `chart-kit>=1.2`."""
    state: State
    message: str
    """What there is, as a part of a sentence after the requirement and a colon."""


def with_required(names: Collection[str], listed: Sequence[Listed], here: Versions) -> frozenset[str]:
    """Return names with those of what they require, as far as it is not here and the place offers it."""
    offered = {each.name: each for each in listed}
    wanted, waiting = set(names), list(names)
    while waiting:
        skill = offered.get(waiting.pop())
        for requirement in map(_requirement, skill.requires if skill else ()):
            name, specifier = requirement
            is_here = name in here and meets(here[name], specifier)
            if (
                name in offered
                and name not in wanted
                and not is_here
                and meets(offered[name].version, specifier)
            ):
                wanted.add(name)
                waiting.append(name)
    return frozenset(wanted)


def required_of(
    skill: Listed, offered: Mapping[str, Listed], here: Versions, asked: Collection[str]
) -> tuple[RequiredSkill, ...]:
    """Say of each requirement of a skill how it stands once `offered` is installed over what is here.

    What is `asked` for is no surprise; whatever else is offered was added for a requirement.
    """
    said = [_required(requirement, offered, here, asked) for requirement in map(_requirement, skill.requires)]
    return (*said, *_cycles(skill, offered))


def _requirement(text: str) -> Requirement:
    """Return a requirement without the source that it names: nothing is there before it is installed."""
    name, specifier = requirement_of(text)
    return Requirement(name.partition("@")[0], specifier)


def _required(
    wanted: Requirement, offered: Mapping[str, Listed], here: Versions, asked: Collection[str]
) -> RequiredSkill:
    name, specifier = wanted
    if (found := offered.get(name)) is not None:
        version = found.version or "it without a version"
        if not meets(found.version, specifier):
            return RequiredSkill(
                wanted.text, "other-version", f"this place offers {version}, which will not do"
            )
        if name not in asked:
            return RequiredSkill(wanted.text, "added", f"this place offers {version}, it is added")
        return RequiredSkill(wanted.text, "met", "it is installed with this one")
    if name not in here:
        return RequiredSkill(wanted.text, "missing", "nothing here offers it")
    if not meets(here[name], specifier):
        return RequiredSkill(wanted.text, "other-version", f"what is installed {version_text(here[name])}")
    return RequiredSkill(wanted.text, "met", f"what is installed {version_text(here[name])}")


def _cycles(skill: Listed, offered: Mapping[str, Listed]) -> Iterator[RequiredSkill]:
    """Find one way of requirements that leads back to a skill."""
    ways, seen = [[skill.name]], {skill.name}
    for way in ways:  # grows while it is walked
        last = skill if way[-1] == skill.name else offered.get(way[-1])
        for name, _ in map(_requirement, last.requires if last else ()):
            if name == skill.name:
                message = f"the requirements form a cycle: {' -> '.join([*way, name])}"
                yield RequiredSkill(name, "cycle", message)
                return
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
