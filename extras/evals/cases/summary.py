"""What a report shows of a run, with intervals that are honest for small samples."""

from typing import Literal

from skills_agent.evals.cases.case import Frozen
from skills_agent.evals.cases.result import Arm, EvalResult, Outcome, RunHead

Verdict = Literal["better", "worse", "no difference shown", "too few cases"]


class Interval(Frozen, frozen=True, kw_only=True):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int
    """Cases that it is of."""


class Triggering(Frozen, frozen=True, kw_only=True):
    """How often one skill is chosen when it should be."""

    skill: str
    right: int
    """Requests for it that it was chosen for, in more than half of their runs (true positives)."""
    missed: int
    """Requests for it that it was not chosen for."""
    wrong: int
    """Requests that it should not have been chosen for, or was chosen for instead of another."""
    precision: Interval | None
    """None: it was never chosen."""
    recall: Interval | None
    """None: no request is for it."""
    f1: float | None


class ArmSummary(Frozen, frozen=True, kw_only=True):
    """One model in one arm."""

    model: str
    arm: Arm
    cases: int
    runs: int
    outcomes: dict[Outcome, int]
    passed: Interval
    """Share of the cases that pass; of a case with several runs, the mean of these. Its n counts those
    that something decides about. In the arm `without` only what came out counts."""
    all_passed: float
    """Share of the cases of which every run passes (pass^k, Yao and others 2024)."""
    accuracy: Interval | None = None
    """Share of the requests for which the right skills were chosen. None: no case says which skills it
    expects, or it is the arm that goes without one; then there are no choices, either."""
    choices: tuple[Triggering, ...] = ()
    tokens: float
    """This and what follows: the median of the runs that no error ended."""
    model_calls: float
    calls: float
    seconds: float
    cached: float
    """Share of all input tokens that the provider's cache had."""
    approvals: int
    """That a person would have been asked for, in all runs together."""


class Delta(Frozen, frozen=True, kw_only=True):
    """The same cases in two ways: with and without the skill, or now and in an earlier run."""

    model: str
    name: str
    """`with - without`, or `now - RUN`."""
    metric: str
    """`passed`, `chosen`, `tokens`, `seconds`, `calls`."""
    value: float
    """Of shares the mean of the differences of the cases, of costs the median: these are skewed."""
    low: float
    high: float
    n: int
    wins: int
    losses: int
    ties: int
    p: float | None
    """McNemar's exact test of wins and losses, after Holm; None below six that differ."""
    verdict: Verdict = "no difference shown"


class CaseRow(Frozen, frozen=True, kw_only=True):
    """One case for one model: its runs in each arm, and before."""

    case: str
    model: str
    runs: dict[str, tuple[EvalResult, ...]]
    """By `with`, `without`, `before`."""
    rates: dict[str, float]
    """Share of passed runs, by the same; nothing where nothing decides. In `without` as in its arm."""
    flaky: bool
    """Some of its runs pass and some do not, in one arm."""


class Summary(Frozen, frozen=True, kw_only=True):
    """A whole run."""

    head: RunHead
    arms: tuple[ArmSummary, ...]
    deltas: tuple[Delta, ...]
    cases: tuple[CaseRow, ...]
    before: RunHead | None = None
    notes: tuple[str, ...] = ()
    """Sentences that belong to the figures: what is too few, what changed between two runs, which part of a
    baseline has no counterpart."""
