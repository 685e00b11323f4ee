"""Running a skill's scripts: one protocol, an interpreter for every script, and the runners."""

from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.interpreter import command_for
from skills_agent.skills.scripts.report import describe
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, ScriptRunner

__all__ = [
    "ControlledRunner",
    "ScriptRequest",
    "ScriptResult",
    "ScriptRunner",
    "command_for",
    "describe",
]
