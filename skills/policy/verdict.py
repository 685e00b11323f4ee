"""What is decided about one tool call."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal

from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy.risk import IN_WORDS, Risk

Decision = Literal["allow", "ask", "deny"]
Judge = Literal["policy", "skill", "grant", "caller", "budget", "approval", "error"]
"""Whose decision: the operator's, a loaded skill's, a person's of earlier, the caller's, ..."""
Approval = Literal["ask", "deny", "fail"]
"""What becomes of a call that needs an approval: a question, a refusal, or the end of the run."""


class ApprovalNeededError(SkillError):
    """A call needs an approval in a run that must not ask."""

    code: ClassVar[str] = "approval-needed"

    def __init__(self, tool: str, reason: str) -> None:
        self.tool = tool
        super().__init__(
            f"The run ended before {tool}, which needs an approval: the setting approval is fail. {reason}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, why, and whose it is."""

    decision: Decision
    reason: str
    by: Judge
    grant: str = ""
    """Id of the grant that allowed it."""


def judge(tool: str, risk: Risk, *, ask_for: Collection[Risk], denied_tools: Collection[str]) -> Verdict:
    """Decide about one call from the tool's name and risk alone.

    `denied_tools` are those that the caller left out, which nobody can approve; `ask_for` are
    the risks that the operator wants a person to answer for. What loaded skills and grants add to
    this is in permission.py and grants.py.
    """
    if tool in denied_tools:
        return Verdict("deny", f"The caller of this run left out the tool {tool}.", "caller")
    if risk in ask_for:
        return Verdict("ask", f"{tool} {IN_WORDS[risk]}.", "policy")
    return Verdict("allow", f"{tool} {IN_WORDS[risk]}; no question is asked for that.", "policy")
