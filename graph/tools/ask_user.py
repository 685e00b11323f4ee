"""The tool that asks the person, and waits for the answer in the thread.

The question is in the schema of langchain's HumanInTheLoopMiddleware, whose decision `respond` is for tools
of this kind. Agent Chat UI does not know that one: there the answer is written into the arguments (`edit`).
"""

from typing import Annotated, Any, Final, Literal

from langchain_core.tools import ToolException
from pydantic import AfterValidator, Field, StringConstraints

from skills_agent.nodes.approve import Edit
from skills_agent.nodes.interrupts import Answer, Reject, put_question
from skills_agent.skills.policy.approval_text import escape_markdown
from skills_agent.skills.visible import visible

NAME: Final = "ask_user"
MAX_ANSWER: Final = 20_000
"""Characters."""

Question = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000)]
Choice = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
Choices = Annotated[list[Choice], Field(max_length=20)]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_ANSWER)]


class Respond(Answer):
    """The answer to the question."""

    type: Literal["respond"]
    message: Words


def _with_answer(edit: Edit) -> Edit:
    """Refuse an edit without an answer; other arguments may have come back changed, and do not count."""
    answer = edit.edited_action.args.get("answer")
    is_answer = isinstance(answer, str) and 0 < len(answer.strip()) <= MAX_ANSWER
    if edit.edited_action.name != NAME or not is_answer:
        raise ValueError(f"an edited call of {NAME} has the answer in its argument `answer`, as a text")
    return edit


Fill = Annotated[Edit, AfterValidator(_with_answer)]
"""The answer, from a UI that can only change arguments."""


class UserAnswer(Answer):
    """One decision, as an answer to the one question."""

    decisions: Annotated[
        list[Annotated[Respond | Fill | Reject, Field(discriminator="type")]],
        Field(min_length=1, max_length=1),
    ]


def ask_user(question: Question, choices: Choices = []) -> str:  # noqa: B006 - a schema default, never changed
    """Ask the person what you cannot find out."""
    (decision,) = put_question(request_of(question, choices), UserAnswer).decisions
    if isinstance(decision, Reject):
        said = f', and said: "{decision.message.strip()}"' if decision.message.strip() else ""
        raise ToolException(f"The person did not answer{said}. Go on without it, or end your turn.")
    words = decision.message if isinstance(decision, Respond) else decision.edited_action.args["answer"]
    return f"The person answered: {_chosen(words.strip(), choices)}"


def request_of(question: str, choices: list[str]) -> dict[str, Any]:
    """Return the question as a chat UI shows it."""
    lines = [f"{number}. {escape_markdown(choice)}" for number, choice in enumerate(choices, 1)]
    asked = "\n".join(map(escape_markdown, visible(question, "prose").split("\n")))
    description = "\n\n".join(filter(None, [asked, "\n".join(lines)]))
    args = {"question": question, "choices": choices, "answer": ""}
    return {
        "action_requests": [{"name": NAME, "args": args, "description": description}],
        "review_configs": [{"action_name": NAME, "allowed_decisions": ["respond", "edit", "reject"]}],
    }


def _chosen(words: str, choices: list[str]) -> str:
    """Return the choice that a number means."""
    is_number = words.isascii() and words.isdigit() and words not in choices
    return choices[int(words) - 1] if is_number and 0 < int(words) <= len(choices) else words
