"""What a tool is, and what a call of it may do."""

from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.tool_spec import RISKS, Risk, ToolSpec
from skills_agent.skills.policy.verdict import Verdict

__all__ = ["RISKS", "Call", "Risk", "ToolSpec", "Verdict"]
