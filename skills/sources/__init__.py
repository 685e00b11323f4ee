"""Sources of skills: one small protocol, and where skills are kept."""

from typing import TYPE_CHECKING, Any

from skills_agent.skills.sources.directory import DirectorySource, standard_sources
from skills_agent.skills.sources.protocol import Scan, SkillEntry, SkillFile, Source

if TYPE_CHECKING:
    from skills_agent.skills.sources.memory import MemorySource

__all__ = [
    "DirectorySource",
    "MemorySource",
    "Scan",
    "SkillEntry",
    "SkillFile",
    "Source",
    "standard_sources",
]


def __getattr__(name: str) -> Any:
    if name != "MemorySource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # For programs: `skills list`, which has to be quick, does without.
    from skills_agent.skills.sources.memory import MemorySource  # noqa: PLC0415

    return MemorySource
