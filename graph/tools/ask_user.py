"""The tool that asks the person, and waits for the answer in the thread.

The question is in the schema of langchain's HumanInTheLoopMiddleware, whose decision `respond` is for tools
of this kind. Agent Chat UI does not know that one: there the answer is written into the arguments (`edit`).
"""

from typing import Annotated, Any, Final, Literal

from langchain_core.tools import ToolException
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from skills_agent.nodes.interrupts import Answer, Reject, put_question
from skills_agent.skills.policy.approval_text import escape_markdown
from skills_agent.skills.visible import visible

NAME: Final = "ask_user"
MAX_ANSWER: Final = 20_000
"""Characters."""

Question = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000)]
Choice = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_ANSWER)]


class AskUserArguments(BaseModel):
    """What a model sends to ask the person."""

    question: Question
    choices: Annotated[list[Choice], Field(max_length=20)] = []


class Respond(Answer):
    """The answer to the question."""

    type: Literal["respond"]
    message: Words


class FilledArguments(Answer):
    """The arguments with the answer in them; the others may have come back changed, and do not count."""

    model_config = ConfigDict(extra="ignore")

    answer: Words


class FilledAction(Answer):
    """The call with the answer in its arguments."""

    name: Literal["ask_user"]
    args: FilledArguments


class Fill(Answer):
    """The answer, from a UI that can only change arguments."""

    type: Literal["edit"]
    edited_action: FilledAction


class UserAnswer(Answer):
    """One decision, as an answer to the one question."""

    decisions: Annotated[
        list[Annotated[Respond | Fill | Reject, Field(discriminator="type")]],
        Field(min_length=1, max_length=1),
    ]


def ask_user(question: str, choices: list[str]) -> str:
    """Ask the person what you cannot find out."""
    (decision,) = put_question(request_of(question, choices), UserAnswer).decisions
    match decision:
        case Respond(message=words) | Fill(edited_action=FilledAction(args=FilledArguments(answer=words))):
            return f"The person answered: {_chosen(words, choices)}"
        case Reject(message=words):
            said = f', and said: "{words.strip()}"' if words.strip() else ""
            raise ToolException(f"The person did not answer{said}. Go on without it, or end your turn.")


def request_of(question: str, choices: list[str]) -> dict[str, Any]:
    """Return the question as a chat UI shows it."""
    lines = [f"{number}. {escape_markdown(choice)}" for number, choice in enumerate(choices, 1)]
    description = "\n\n".join(filter(None, [_markdown(question), "\n".join(lines)]))
    args = {"question": question, "choices": choices, "answer": ""}
    return {
        "action_requests": [{"name": NAME, "args": args, "description": description}],
        "review_configs": [{"action_name": NAME, "allowed_decisions": ["respond", "edit", "reject"]}],
    }


def _markdown(question: str) -> str:
    return "\n".join(map(escape_markdown, visible(question, "prose").split("\n")))


def _chosen(words: str, choices: list[str]) -> str:
    """Return the choice that a number means."""
    is_number = words.isascii() and words.isdigit() and words not in choices
    return choices[int(words) - 1] if is_number and 0 < int(words) <= len(choices) else words
