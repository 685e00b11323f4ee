"""What calls of tools may do, and what a tool is."""

from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.skills.policy.verdict import Approver, Opinion, Verdict
from skills_agent.skills.risk import RISKS, Risk

__all__ = ["RISKS", "Approver", "Call", "Opinion", "Risk", "ToolSpec", "Verdict"]
