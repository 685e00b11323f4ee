"""The hook `needs`. Each part is imported when it is asked for: most skills need nothing of the machine."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from skills_agent.graph.settings import Settings
from skills_agent.skills.machine import Machine
from skills_agent.skills.skill import Need


class _NeedsOfExtra:
    """The names are those of `NeedsHook`."""

    def gather(
        self, folder: Path, skill_file: str, plugin: Path | None, learned: Sequence[Need]
    ) -> tuple[Need, ...]:
        from skills_agent.needs.declared import merged  # noqa: PLC0415
        from skills_agent.needs.gather import gather  # noqa: PLC0415

        shown = gather(folder, skill_file, plugin)
        return merged([*learned, *shown]) if learned else shown

    def gather_now(self, folder: Path, skill_file: str = "SKILL.md") -> tuple[Need, ...]:
        from skills_agent.needs.gather import gather_now  # noqa: PLC0415

        return gather_now(folder, skill_file)

    def machine(
        self, settings: Settings, unreachable: Callable[[], Mapping[str, str]], *, is_elsewhere: bool
    ) -> Machine:
        from skills_agent.needs.machine import Elsewhere, machine_here  # noqa: PLC0415

        return Elsewhere() if is_elsewhere else machine_here(settings, unreachable)


NEEDS: Final = _NeedsOfExtra()
