"""Sources of skills: one small protocol, and where skills are kept."""

from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.memory import MemorySource
from skills_agent.skills.sources.protocol import FoundSkill, Scan, SkillFile, Source
from skills_agent.skills.sources.standard import standard_sources
from skills_agent.skills.sources.walk import ScanLimits

__all__ = [
    "DirectorySource",
    "FoundSkill",
    "MemorySource",
    "Scan",
    "ScanLimits",
    "SkillFile",
    "Source",
    "standard_sources",
]
