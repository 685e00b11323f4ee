"""What a tool is, and what a call of it may do."""

from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.risk import RISKS, Risk
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.skills.policy.verdict import Approver, Opinion, Verdict

__all__ = ["RISKS", "Approver", "Call", "Opinion", "Risk", "ToolSpec", "Verdict"]
