"""What a run came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from skills_agent.state.records import UsageRecord, VerdictRecord

Status = Literal["done", "waiting", "unfinished"]
"""`unfinished`: cut off in the middle, by a crash, Ctrl-C or SIGTERM."""


class Question(NamedTuple):
    """One open interrupt: the calls that a person is asked about."""

    id: str
    requests: Sequence[Mapping[str, Any]]
    """`name`, `args` and `description` of each call."""
    reviews: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What a run came to, and what it decided on the way."""

    thread: str
    status: Status
    answer: str
    loaded: list[str]
    usage: UsageRecord | None
    calls: list[VerdictRecord] = field(default_factory=list)
    """Every judged call of the run, with the last verdict on it."""
    questions: tuple[Question, ...] = ()

    def as_json(self, resume: str) -> dict[str, Any]:
        """Return the outcome for a machine; `resume` is the command that answers its question."""
        told: dict[str, Any] = {
            "thread": self.thread,
            "status": self.status,
            "answer": self.answer,
            "loaded": self.loaded,
            "usage": self.usage,
            "calls": self.calls,
        }
        if self.questions:
            question = self.questions[0]
            told["interrupt"] = {
                "id": question.id,
                "action_requests": question.requests,
                "review_configs": question.reviews,
            }
            told["resume"] = resume
        return told
