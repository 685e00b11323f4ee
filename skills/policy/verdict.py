"""What is decided about one tool call."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from skills_agent.skills.errors import SkillError

Decision = Literal["allow", "ask", "deny"]
Author = Literal["policy", "skill", "grant", "caller", "budget", "approval", "error"]
"""Whose decision it is: `policy` is the operator's settings, `grant` an earlier answer of a person,
`approval` an answer of now, `error` nobody's: the call cannot run."""
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
    by: Author
    grant: str = ""
    """Id of the grant that allowed it."""
