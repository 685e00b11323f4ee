"""What the skills that are installed require: of what is here, and of what their place offers."""

from collections.abc import Collection, Iterable, Mapping

from skills_agent.packages.offer import Listed, version_of
from skills_agent.skills.format.requirements import Requirement, meets, requirement_of, version_text

Versions = Mapping[str, str]
"""Of skills by name; empty for one that says none."""


def with_required(names: Collection[str], offered: Listed, here: Versions) -> frozenset[str]:
    """Return names with those of what they require, as far as it is not here and the place offers it."""
    wanted, waiting = set(names), list(names)
    while waiting:
        skill = offered.get(waiting.pop())
        for name, specifier in map(_requirement, skill.requires if skill else ()):
            is_here = name in here and meets(here[name], specifier)
            is_offered = name in offered and meets(version_of(offered[name]), specifier)
            if name not in wanted and is_offered and not is_here:
                wanted.add(name)
                waiting.append(name)
    return frozenset(wanted)


def required_of(
    requires: Iterable[str], offered: Versions, here: Versions, asked: Collection[str]
) -> tuple[str, ...]:
    """Say of each requirement of a skill how it stands once `offered` is installed over what is here.

    What is `asked` for is no surprise; whatever else is offered was added for a requirement.
    """
    return tuple(_stands(each, offered, here, asked) for each in map(_requirement, requires))


def _requirement(text: str) -> Requirement:
    """Return a requirement without the source that it names: nothing is there before it is installed."""
    name, specifier = requirement_of(text)
    return Requirement(name.partition("@")[0], specifier)


def _stands(wanted: Requirement, offered: Versions, here: Versions, asked: Collection[str]) -> str:
    name, specifier = wanted
    text = f"{name}{specifier}"
    if name in offered:
        version = offered[name] or "it without a version"
        if not meets(offered[name], specifier):
            return f"{text}: this place offers {version}, which will not do"
        added = (
            "it is installed with this one" if name in asked else f"this place offers {version}, it is added"
        )
        return f"{text}: {added}"
    if name not in here:
        return f"{text}: nothing here offers it"
    return f"{text}: what is installed {version_text(here[name])}"
