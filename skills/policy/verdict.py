"""What is decided about one tool call."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from skills_agent.skills.policy.risk import IN_WORDS, Risk

Decision = Literal["allow", "ask", "deny"]
Judge = Literal["policy", "grant", "caller", "budget", "approval", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, why, and whose it is."""

    decision: Decision
    reason: str
    by: Judge


def judge(tool: str, risk: Risk, *, ask_for: Collection[Risk], denied_tools: Collection[str]) -> Verdict:
    """Decide about one call from the tool's name and risk alone.

    `denied_tools` are those that the caller left out, which nobody can approve; `ask_for` are
    the risks that the operator wants a person to answer for.
    """
    if tool in denied_tools:
        return Verdict("deny", f"The caller of this run left out the tool {tool}.", "caller")
    if risk in ask_for:
        return Verdict("ask", f"{tool} {IN_WORDS[risk]}.", "policy")
    return Verdict("allow", f"{tool} {IN_WORDS[risk]}; no question is asked for that.", "policy")
