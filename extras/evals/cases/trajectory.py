"""What happened in one run of a case, without any message of LangChain."""

from operator import mul
from typing import Any, Literal, NamedTuple

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
    cached_tokens: int = 0
    """Of the input: what a provider's prompt cache had."""
    approvals: int = 0
    """Requests that a person would have been asked about; of another agent, as this one's policy answers."""

    @property
    def tokens(self) -> int:
        """Return input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Budget(NamedTuple):
    """The most that a run may take: tokens, or money where prices are known."""

    most: float
    prices: tuple[float, float, float] | None = None
    """US dollars for a million tokens: of input, of input that a provider's cache had, of output."""

    def taken(self, spent: Spent) -> float:
        """Return what was taken, in the unit of `most`."""
        if self.prices is None:
            return spent.tokens
        fresh = spent.input_tokens - spent.cached_tokens
        amounts = (fresh, spent.cached_tokens, spent.output_tokens)
        return float(sum(map(mul, self.prices, amounts))) / 1_000_000

    def __str__(self) -> str:
        return f"{self.most:,.0f} tokens" if self.prices is None else f"${self.most:,.2f}"


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
