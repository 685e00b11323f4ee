"""One result of one run of one case, and the head of a run: what a run keeps on disk."""

from typing import Literal

import msgspec

from skills_agent.evals.cases.case import EvalCase, Frozen
from skills_agent.evals.cases.trajectory import Spent, Trajectory

Arm = Literal["with", "without"]
"""The same case with the skill, and without it."""

CheckKind = Literal["skills", "calls", "order", "forbidden", "limits", "answer", "file", "script", "rubric"]

Outcome = Literal["passed", "failed", "error", "timeout", "refused", "ungraded"]
"""All checks hold; one does not; the model or the agent failed; it took too long; it stopped at a question
that nobody answers; nothing decides (a rubric alone, and no grader)."""

Recording = Literal["", "record", "replay"]
"""Whether answers of providers are kept beside the cases, or come from there."""


class CheckResult(Frozen, frozen=True, kw_only=True):
    """One expectation, held against what happened."""

    kind: CheckKind
    text: str
    """What was expected, as a sentence."""
    passed: bool
    evidence: str = ""
    """What was found; never empty where it failed."""


class EvalResult(Frozen, frozen=True, kw_only=True):
    """One run of a case: a line of `results.jsonl`."""

    case: str
    """Its id."""
    model: str
    arm: Arm = "with"
    repeat: int = 0
    """From 0."""
    outcome: Outcome
    checks: tuple[CheckResult, ...] = ()
    error: str = ""
    """Why there is no answer, for `error`, `timeout` and `refused`."""
    trajectory: Trajectory = Trajectory()
    spent: Spent = Spent()
    grading: Spent = Spent()
    """What the grader took, which is no part of `spent`."""
    thread: str = ""
    """`threads show` opens it."""

    @property
    def key(self) -> tuple[str, str, Arm, int]:
        """Return what makes it one of its kind in a run."""
        return self.case, self.model, self.arm, self.repeat


class RunHead(Frozen, frozen=True, kw_only=True):
    """What a run is of: `run.json`. With the results it is all that a report needs."""

    id: str
    at: str
    """When it began: RFC 3339, UTC."""
    command: str = ""
    """As it was typed, to type it again."""
    program: str = ""
    """The version of skills-agent."""
    models: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    """Names of those that are compared; empty: this one alone. No file says which functions make them."""
    grader: str = ""
    """The model that grades rubrics; empty: none does."""
    arms: tuple[Arm, ...] = ("with",)
    repeat: int = 1
    recording: Recording = ""
    places: tuple[str, ...] = ()
    """Absolute paths that the cases were read from, and that say which skills the agent has."""
    skills: dict[str, str] = msgspec.field(default_factory=dict)
    """Digests of the skills that the agent knew, by name, when the run began."""
    cases: tuple[EvalCase, ...] = ()
    skipped: tuple[str, ...] = ()
    """What of the files was passed over, in sentences."""
    partial: str = ""
    """Why it did not run to its end; empty where it did."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return who answers: each model, asked by each agent as `AGENT@MODEL`."""
        return tuple(label_of(agent, model) for agent in self.agents for model in self.models) or self.models


def label_of(agent: str, model: str) -> str:
    """Return who answers, as results name it."""
    return f"{agent}@{model}"


def split_label(label: str) -> tuple[str, str]:
    """Return the agent, empty where there is but this one, and the model of a label."""
    agent, at, model = label.partition("@")
    return (agent, model) if at and ":" not in agent else ("", label)
