"""What a call can do at worst, and what becomes of one that somebody has to approve."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

Risk = Literal["read", "run", "write", "network", "delete"]
Approval = Literal["ask", "deny", "fail"]
"""What becomes of a call that needs an approval: a question, a refusal, or the end of the run."""
RISKS: Final[tuple[Risk, ...]] = get_args(Risk)
RISK_TEXTS: Final[Mapping[Risk, str]] = {
    "read": "only reads",
    "run": "runs a program",
    "write": "changes files",
    "network": "may reach the network",
    "delete": "deletes files",
}
"""What a tool of that risk does, for the person who is asked."""
