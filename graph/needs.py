"""What skills need of the machine, where the extra that knows it is installed. Imports no LangGraph."""

from collections.abc import Callable, Mapping
from pathlib import Path

from skills_agent.graph.hooks import first
from skills_agent.graph.settings import Settings
from skills_agent.skills.machine import Machine, Needs
from skills_agent.skills.skill import Need


def machine_of(
    settings: Settings, unreachable: Callable[[], Mapping[str, str]] = dict, *, is_elsewhere: bool = False
) -> Machine:
    """Return what needs of skills are held against.

    `unreachable` says which MCP servers cannot be reached, and why; `is_elsewhere`: a host's runner runs
    scripts on what is not known here.
    """
    needs = first("needs")
    machine: Machine = needs.machine(settings, unreachable, is_elsewhere=is_elsewhere) if needs else Machine()
    return machine


def gather_now(folder: Path, skill_file: str) -> tuple[Need, ...]:
    """Return what the skill in a folder needs as it is now; nothing where nobody reads it."""
    needs: Needs | None = first("needs")
    return needs.gather_now(folder, skill_file) if needs else ()
