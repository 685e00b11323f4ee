"""The form of a question to a person and of its answer."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, TypeVar, cast

from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.runtime import get_runtime
from langgraph.types import interrupt
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

from skills_agent.nodes.effects import JournalEntry
from skills_agent.skills.policy.approval_text import escape_markdown, is_whole
from skills_agent.skills.policy.grants import Scope
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.verdict import AnswerRefusedError, UnanswerableError
from skills_agent.state.context import Context

T = TypeVar("T")

UNKNOWN: Final = "outcome_unknown"
"""The field of a request of a question that says what is known of an effect that was cut off."""
REFUSED: Final = "answer_refused"
"""The field of a question that is put again: why the answer to it was not taken."""
ASKED_BY: Final = "asked_by"
"""The field of a question that has the path of the forks that ask it."""
UNANSWERABLE: Final = "__skills_agent_unanswerable"
"""In `configurable`, where no checkpointer keeps the thread: a question would end the run without a word."""


def action_request(call: Call, description: str) -> dict[str, Any]:
    """Return a call as a question shows it."""
    return {"name": call.tool, "args": call.args, "description": description}


def make_question(requests: Sequence[dict[str, Any]], fixed: Collection[str] = ()) -> dict[str, Any]:
    """Return the question about some calls, in the schema that chat UIs render: HITLRequest of langchain 1.x.

    Calls of tools in `fixed` cannot be edited, and what is not shown whole cannot be approved.
    """
    unseen = {each["name"] for each in requests if not is_whole(each["description"])}
    reviews = [
        {
            "action_name": name,
            "allowed_decisions": [
                *(() if name in unseen else ("approve",)),
                *(() if name in fixed else ("edit",)),
                "reject",
            ],
        }
        for name in dict.fromkeys(request["name"] for request in requests)
    ]
    return {"action_requests": requests, "review_configs": reviews}


class AskedAttempt(NamedTuple):
    """The attempt that a question about an unknown outcome is about."""

    call_id: str
    attempt: int

    @classmethod
    def of(cls, question: object) -> Self | None:
        """Return what a question is about; None for one that is not about an unknown outcome alone."""
        match question:
            case {
                "action_requests": [{"outcome_unknown": {"call_id": str(call_id), "attempt": int(attempt)}}]
            }:
                return cls(call_id, attempt)
        return None

    def is_open(self, entry: JournalEntry | None) -> bool:
        """Return whether the journal knows no more than what was asked about."""
        return entry is None or (entry.is_unknown and entry.attempt == self.attempt)


def put_question(
    question: Mapping[str, Any], schema: type[T], take: Callable[[T], T] = lambda answer: answer
) -> T:
    """Interrupt the graph, and return the answer when it goes on; other forms of it are read, too.

    `take` gets an answer before it is saved, and may refuse it.
    Raises AnswerRefusedError for an answer of another shape, which is not saved: whoever records the node
    puts the question again, with the reason. Raises UnanswerableError.
    """
    check_answerable(*(request["name"] for request in question["action_requests"]))
    question = _with_path(question)
    other = BeforeValidator(lambda answer: _read_other_form(question, answer))
    whole = AfterValidator(lambda answer: _refuse_unseen(question, answer))
    read = Annotated[schema, other, whole, AfterValidator(take)]  # type: ignore[valid-type]
    try:
        answer: T = interrupt(question, response_schema=cast("type[T]", read))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "answer"
        text = f"{place}: {fault['msg'].removeprefix('Value error, ')}"
        if place in {"answer", "decisions"} and not fault["msg"].startswith("Value error"):
            text = _wanted(question)
        again = _with_reason(question, text, f"Your answer was not understood: {text}.")
        raise AnswerRefusedError(text, again, TypeAdapter(schema).json_schema()) from error
    return answer


def _with_path(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a question that says who asks, where that is a fork: it is put in the thread around it."""
    path = Context.of(get_runtime(Context).context).scope.path
    if not path:
        return question
    asker = f"Asked by the {' > '.join(path)}."
    requests = [
        {**each, "description": f"{escape_markdown(asker)}\n\n{each['description']}"}
        for each in question["action_requests"]
    ]
    return {**question, "action_requests": requests, ASKED_BY: [*path]}


def _refuse_unseen(question: Mapping[str, Any], answer: T) -> T:
    """Raise ValueError where a call is approved that was not shown whole."""
    for request, decision in zip(question["action_requests"], getattr(answer, "decisions", ()), strict=False):
        if decision.type == "approve" and not is_whole(request["description"]):
            raise ValueError(f"{request['name']} was not shown whole, so it cannot be approved: reject it")
    return answer


def _read_other_form(question: Mapping[str, Any], answer: Any) -> Any:
    """Return what else clients send in our schema; any other answer as it is.

    Agent Inbox sends a list of its HumanResponse, Studio what a person types: a decision alone, or the words
    that the agent asked for. Words approve nothing: A2A hands on what another agent says.
    Raises ValueError for an answer that does not say what it should.
    """
    requests = question["action_requests"]
    takes_words = any("respond" in config["allowed_decisions"] for config in question["review_configs"])
    if takes_words and isinstance(answer, str):
        answer = {"type": "response", "args": answer}
    decisions = answer if isinstance(answer, list) else [answer]
    if not decisions or not all(isinstance(each, Mapping) and "type" in each for each in decisions):
        return answer
    if len(decisions) != len(requests):
        raise ValueError(f"there are {len(requests)} calls to answer, and {len(decisions)} answers")
    pairs = zip(decisions, requests, strict=True)
    return {"decisions": [_decision_of(each, request, takes_words=takes_words) for each, request in pairs]}


def _decision_of(
    response: Mapping[str, Any], request: Mapping[str, Any], *, takes_words: bool
) -> Mapping[str, Any]:
    """Return one HumanResponse as a decision about a call; what has other fields is a decision already."""
    if not response.keys() <= {"type", "args"}:
        return response
    shown = {"action": request["name"], "args": request["args"]}
    match {"args": None, **response}:
        case {"type": "accept" | "approve", "args": args} if args in (None, shown):
            return {"type": "approve"}
        case {"type": "accept", "args": {"action": _, "args": _}}:
            raise ValueError("accept names another call than the question: to change a call, send edit")
        case {"type": "edit", "args": {"action": name, "args": args}}:
            return {"type": "edit", "edited_action": {"name": name, "args": args}}
        case {"type": "ignore" | "reject", "args": None | ""}:
            return {"type": "reject"}
        case {"type": "response", "args": str(words)}:
            return {"type": "respond" if takes_words else "reject", "message": words}
    raise ValueError(f"no answer has the type {response['type']!r:.40} and such args")


def _wanted(question: Mapping[str, Any]) -> str:
    """Return what an answer looks like, to be read by whoever wrote the client."""
    (first, *_), count = question["review_configs"][0]["allowed_decisions"], len(question["action_requests"])
    decisions = f"{count} decisions" if count > 1 else "one decision"
    return f'an answer is {{"decisions": [{{"type": "{first}"}}]}}, with {decisions}'


def _with_reason(question: Mapping[str, Any], fault: str, reason: str) -> dict[str, Any]:
    """Return a question that says first why the answer to it was not taken."""
    first, *others = question["action_requests"]
    first = {**first, "description": f"{escape_markdown(reason)}\n\n{first['description']}"}
    return {**question, "action_requests": [first, *others], REFUSED: fault}


def check_answerable(*tools: str) -> None:
    """Raise UnanswerableError where nobody could ever answer a question about calls of these tools."""
    if get_config().get("configurable", {}).get(UNANSWERABLE):
        raise UnanswerableError(", ".join(dict.fromkeys(tools)))


class Answer(BaseModel):
    """A part of what a person says; an unknown field is refused: it may mean anything."""

    model_config = ConfigDict(extra="forbid")


class GrantWish(Answer):
    """For which later calls an approval holds, too."""

    scope: Scope
    pattern: str | None = None
    """An entry as in `allowed-tools`, with the scope `pattern`."""


class Approve(Answer):
    """Run it as asked."""

    type: Literal["approve"]
    grant: GrantWish | None = None


class Reject(Answer):
    """Do not run it; the message goes to the model."""

    type: Literal["reject"]
    message: str = ""


def answers(kinds: Any, number: int, check: Callable[[list[Any]], list[Any]]) -> type[Any]:
    """Return the class of an answer with so many decisions of some kinds; `check` may raise ValueError."""
    decisions = Annotated[
        list[Annotated[kinds, Field(discriminator="type")]],
        Field(min_length=number, max_length=number),
        # Pydantic writes a `partial` out, with all that it carries and that other threads change meanwhile.
        AfterValidator(lambda given: check(given)),  # noqa: PLW0108
    ]
    return create_model("HITLResponse", __base__=Answer, decisions=(decisions, ...))


def ask_alone(
    request: dict[str, Any],
    holds_for: str,
    carry_out: Callable[[Any], object] = lambda _: None,
) -> Any:
    """Ask about one thing, whose approval grants nothing more; return the decision: Approve or Reject.

    `holds_for` says what an approval holds for, to a client that wants more. `carry_out` does what a person
    decided, before that is saved; it may raise what `asked_anew` returns. Raises as `put_question` does.
    """

    def take(answer: Any) -> Any:
        (decision,) = answer.decisions
        if isinstance(decision, Approve) and decision.grant:
            raise ValueError(f"an approval of {holds_for}: leave out grant")
        carry_out(decision)
        return answer

    question = make_question([request], fixed=[request["name"]])
    return put_question(question, answers(Approve | Reject, 1, list), take).decisions[0]


def asked_anew(request: dict[str, Any], fault: str) -> AnswerRefusedError:
    """Return the error that asks about one thing again, as what a person decided about it was not done."""
    question = make_question([request], fixed=[request["name"]])
    schema = answers(Approve | Reject, 1, list).model_json_schema()
    return AnswerRefusedError(fault, _with_reason(question, fault, f"That was not done. {fault}"), schema)


def answer_unknown(call_id: str, entry: JournalEntry, decision: str) -> ToolMessage:
    """Return the tool message for a call whose outcome is unknown; a sentence says what becomes of it."""
    text = unknown_text(entry.description, decision)
    return ToolMessage(text, tool_call_id=call_id, name=entry.tool, status="error", id=f"unknown-{call_id}")


def unknown_text(description: str, decision: str) -> str:
    """Return what the model reads of a call whose outcome is unknown; both are sentences."""
    return f"Outcome unknown: {description} {decision} Check what it would have changed."


def with_words(decision: str, words: str) -> str:
    """Return what a person decided as a sentence, and what they said with it as a quotation."""
    said = words.strip()
    if not said:
        return f"{decision}."
    return f'{decision}, and said: "{said}"' + ("" if said.endswith((".", "!", "?")) else ".")
