"""What is decided about one tool call, and the rules of a host that help to decide: approvers."""

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from msgspec.structs import replace

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.reasons import Decision, Facts, reason

logger = logging.getLogger(__name__)

_BY_STRENGTH: Final[tuple[Decision, ...]] = get_args(Decision)
Author = Literal["policy", "approver", "skill", "grant", "caller", "budget", "approval", "error"]
"""Whose decision it is: `policy` is the operator's settings, `grant` an earlier answer of a person,
`approval` an answer of now, `error` nobody's: the call cannot run."""


class ApprovalNeededError(DetailedError, SkillError):
    """A call needs an approval in a run that must not ask."""

    sentence = "The run ended before {tool}, which needs an approval: the setting approval is fail. {reason}"
    tool: str
    reason: str


class UnanswerableError(DetailedError, SkillError):
    """A call needs a person, and no checkpointer keeps the thread for the answer."""

    sentence = (
        "{tool} needs a person's answer, and nothing keeps this run until it comes: compile the graph with a "
        "checkpointer (build_graph(...).compile(checkpointer=InMemorySaver())) and give each run a "
        "thread_id (a client of a server: run it in a thread of threads.create()), or decide beforehand with "
        "the setting approval or require_approval_for."
    )
    tool: str


class AnswerRefusedError(DetailedError):
    """What a person or a client answered is no answer to the open question, which is put again."""

    sentence = "{fault}. The question stays open."
    fault: str
    question: Mapping[str, Any]
    """It begins with the reason."""
    answer_schema: Mapping[str, Any]
    """The JSON schema of an answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, whose it is, and why."""

    decision: Decision
    by: Author
    facts: Facts
    grant: str = ""
    """Id of the grant that allowed it."""

    @property
    def reason(self) -> str:
        """Return the facts as sentences."""
        return reason(self.facts)


class Opinion(NamedTuple):
    """What an approver says about one call."""

    decision: Decision
    reason: str = ""
    """For the person who is asked, and for the model that is refused."""
    protected: bool = False
    """Whether `allow` holds for protected paths, too: else a person is asked about these all the same."""


Approver = Callable[[Call], Opinion | Decision | None]
"""A rule of a host: what it says about a call, None for no opinion. It must not change or keep the call."""


def consult(approvers: Iterable[Approver], call: Call) -> Opinion | None:
    """Return the strictest opinion on a call; None where no approver has one. One that fails denies it."""
    opinions = [opinion for approver in approvers if (opinion := _opinion(approver, call))]
    return max(
        opinions,
        key=lambda opinion: (_BY_STRENGTH.index(opinion.decision), opinion.protected),
        default=None,
    )


def _opinion(approver: Approver, call: Call) -> Opinion | None:
    name = getattr(approver, "__name__", type(approver).__name__)
    try:
        answer: object = approver(replace(call, args=deepcopy(dict(call.args))))
    except Exception as error:
        logger.warning("approver failed", extra={"approver": name, "tool": call.tool}, exc_info=error)
        return Opinion("deny", f"the approver {name} failed with {type(error).__name__}")
    if isinstance(answer, str):
        answer = Opinion(answer)  # type: ignore[arg-type]  # what it says is looked at next
    if answer is None or (isinstance(answer, Opinion) and answer.decision in _BY_STRENGTH):
        return answer
    logger.warning("approver gave no opinion", extra={"approver": name, "answer": type(answer).__name__})
    return Opinion("deny", f"the approver {name} returned no opinion that is known")
