"""The hook `needs`: the names of `Needs`, `machine`, which needs are held against, and what `doctor` asks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skills_agent.graph.settings import Settings
from skills_agent.needs.gather import gather, gather_now
from skills_agent.needs.machine import Elsewhere, machine_here
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.machine import Machine
from skills_agent.skills.text import one_line

__all__ = ["check_skill", "gather", "gather_now", "lacking", "machine"]


def check_skill(*args: Any, **more: Any) -> None:
    """Do what `skills-agent doctor SKILL` says."""
    from skills_agent.needs.commands.needs import check_skill as check  # noqa: PLC0415 - it imports click

    check(*args, **more)


def machine(
    settings: Settings, unreachable: Callable[[], Mapping[str, str]], *, is_elsewhere: bool
) -> Machine:
    """Return what needs are held against."""
    return Elsewhere() if is_elsewhere else machine_here(settings, unreachable)


def lacking(settings: Settings, catalog: Catalog, unreachable: Mapping[str, str]) -> dict[str, str]:
    """Say of each skill in a folder, by name, what it needs now and is not here, and what would help."""
    here, found = machine_here(settings, lambda: unreachable), {}
    for skill in catalog.skills:
        path = Path(skill.path)
        needs = gather_now(path.parent, path.name) if path.is_absolute() else ()
        if missing := here.missing(needs, skill.ref, trusted=skill.trusted):
            remedies = "; ".join(here.remedies(missing, skill.ref))
            found[skill.name] = one_line(f"{here.sentence(missing)}. What would help: {remedies}")
    return found
