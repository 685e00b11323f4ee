"""What calls of tools may do, and what a tool is. Each name is imported when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skills_agent.skills.policy.patterns import Call as Call
    from skills_agent.skills.policy.risk import RISKS as RISKS
    from skills_agent.skills.policy.risk import Risk as Risk
    from skills_agent.skills.policy.tool_spec import ToolSpec as ToolSpec
    from skills_agent.skills.policy.verdict import Approver as Approver
    from skills_agent.skills.policy.verdict import Opinion as Opinion
    from skills_agent.skills.policy.verdict import Verdict as Verdict

_HOMES = {
    "Call": "patterns",
    "RISKS": "risk",
    "Risk": "risk",
    "ToolSpec": "tool_spec",
    "Approver": "verdict",
    "Opinion": "verdict",
    "Verdict": "verdict",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
