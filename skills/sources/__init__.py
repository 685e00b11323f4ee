"""Folders as sources of skills, and the small protocol of all sources."""

from skills_agent.skills.sources.directory import DirectorySource, standard_sources
from skills_agent.skills.sources.memory import MemorySource
from skills_agent.skills.sources.protocol import Scan, SkillEntry, SkillFile, Source

__all__ = [
    "DirectorySource",
    "MemorySource",
    "Scan",
    "SkillEntry",
    "SkillFile",
    "Source",
    "standard_sources",
]
