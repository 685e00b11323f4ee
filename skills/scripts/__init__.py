"""Running a skill's scripts: one protocol, an interpreter for every script, and the runners."""

from skills_agent.skills.scripts.bwrap import BwrapRunner
from skills_agent.skills.scripts.choice import choose_runner
from skills_agent.skills.scripts.controlled import ControlledRunner
from skills_agent.skills.scripts.environment import ScriptLimits
from skills_agent.skills.scripts.external import ExternalRunner
from skills_agent.skills.scripts.interpreter import command_for
from skills_agent.skills.scripts.report import describe
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, ScriptRunner, WrittenFile

__all__ = [
    "BwrapRunner",
    "ControlledRunner",
    "ExternalRunner",
    "ScriptLimits",
    "ScriptRequest",
    "ScriptResult",
    "ScriptRunner",
    "WrittenFile",
    "choose_runner",
    "command_for",
    "describe",
]
