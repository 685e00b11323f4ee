"""The hook `needs`: the names are those of `Needs`, and `machine`, which needs are held against.

Each part is imported when it is asked for: most skills need nothing of the machine.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from skills_agent.graph.settings import Settings
from skills_agent.skills.machine import Machine
from skills_agent.skills.skill import Need


def gather(folder: Path, skill_file: str, plugin: Path | None, learned: Sequence[Need]) -> tuple[Need, ...]:
    """Return what the skill in a folder of a snapshot needs; what its failed runs taught comes first."""
    from skills_agent.needs.declared import merged  # noqa: PLC0415
    from skills_agent.needs.gather import gather as gathered  # noqa: PLC0415

    shown = gathered(folder, skill_file, plugin)
    return merged([*learned, *shown]) if learned else shown


def gather_now(folder: Path, skill_file: str = "SKILL.md") -> tuple[Need, ...]:
    """Return what the skill in a folder needs as it is now."""
    from skills_agent.needs.gather import gather_now as gathered  # noqa: PLC0415

    return gathered(folder, skill_file)


def machine(
    settings: Settings, unreachable: Callable[[], Mapping[str, str]], *, is_elsewhere: bool
) -> Machine:
    """Return what needs are held against."""
    from skills_agent.needs.machine import Elsewhere, machine_here  # noqa: PLC0415

    return Elsewhere() if is_elsewhere else machine_here(settings, unreachable)
