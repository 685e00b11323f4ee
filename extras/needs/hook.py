"""The hook `needs`: the names are those of `Needs`, and `machine`, which needs are held against."""

from collections.abc import Callable, Mapping

from skills_agent.graph.settings import Settings
from skills_agent.needs.gather import gather, gather_now
from skills_agent.needs.machine import Elsewhere, machine_here
from skills_agent.skills.machine import Machine

__all__ = ["gather", "gather_now", "machine"]


def machine(
    settings: Settings, unreachable: Callable[[], Mapping[str, str]], *, is_elsewhere: bool
) -> Machine:
    """Return what needs are held against."""
    return Elsewhere() if is_elsewhere else machine_here(settings, unreachable)
