"""What happened in one run of a case, without any message of LangChain."""

from typing import Any, Literal

import msgspec

from skills_agent.evals.cases.case import Frozen

CallStatus = Literal["ok", "error", "refused", "unanswered"]
"""It returned; it ran and failed; it was not let run (policy, person, arguments); there is no result."""


class MadeCall(Frozen, frozen=True, kw_only=True):
    """One call of a tool, in the order in which the model made them."""

    tool: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    status: CallStatus = "ok"
    step: int = 0
    """Which reply of the model it was in, from 0; calls of one step ran side by side."""
    result: str = ""
    """The beginning of what it returned."""


class Spent(Frozen, frozen=True, kw_only=True):
    """What a run took."""

    seconds: float = 0.0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Return input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Trajectory(Frozen, frozen=True, kw_only=True):
    """What the agent did, turn by turn."""

    answers: tuple[str, ...] = ()
    """One for each turn that ended."""
    calls: tuple[MadeCall, ...] = ()
    chosen: tuple[str, ...] = ()
    """Skills that the model loaded itself, or that these require, in order, each once."""
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """Files that are new or changed after the last turn: path and SHA-256."""

    @property
    def answer(self) -> str:
        """Return the last answer."""
        return self.answers[-1] if self.answers else ""
