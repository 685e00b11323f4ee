"""What a run came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from skills_agent.state.records import UsageRecord, VerdictRecord
from skills_agent.state.transcript import LOAD_SKILL

Status = Literal["done", "waiting", "unfinished"]
"""`unfinished`: cut off in the middle, by a crash, Ctrl-C or SIGTERM."""


class Question(NamedTuple):
    """One open interrupt: the calls that a person is asked about."""

    id: str
    requests: Sequence[Mapping[str, Any]]
    """`name`, `args` and `description` of each call."""
    reviews: Sequence[Mapping[str, Any]]

    def takes_edit(self, request: Mapping[str, Any]) -> bool:
        """Tell whether one of its requests may be answered with another call."""
        return any(
            review["action_name"] == request["name"] and "edit" in review["allowed_decisions"]
            for review in self.reviews
        )

    def takes_grant(self, request: Mapping[str, Any]) -> bool:
        """Tell whether an approval may hold for later calls, too: not where an outcome is unknown."""
        return self.takes_edit(request) or request["name"] == LOAD_SKILL


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
            "calls": [
                {key: value for key, value in each.items() if key not in {"digest", "skill"}}
                for each in self.calls
            ],
        }
        if self.questions:
            told["interrupt"] = _interrupt(self.questions[0])
            if len(self.questions) > 1:
                told["interrupts"] = [_interrupt(question) for question in self.questions]
            told["resume"] = resume
        return told


def _interrupt(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "action_requests": question.requests,
        "review_configs": question.reviews,
    }
