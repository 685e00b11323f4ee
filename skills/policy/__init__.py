"""What a tool call may do: risk and verdict."""

from skills_agent.skills.policy.risk import FRAMEWORK_TOOLS, RISKS, Risk
from skills_agent.skills.policy.verdict import Verdict, judge

__all__ = ["FRAMEWORK_TOOLS", "RISKS", "Risk", "Verdict", "judge"]
