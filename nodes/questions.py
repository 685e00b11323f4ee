"""Questions to a person, in the schema that chat UIs render (langchain 1.x, HITLRequest)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

Allowed = Literal["approve", "edit", "reject"]


class ActionRequest(TypedDict):
    """One question."""

    name: str
    args: dict[str, Any]
    description: str


class ReviewConfig(TypedDict):
    """Which answers a question takes."""

    action_name: str
    allowed_decisions: list[Allowed]


class HITLRequest(TypedDict):
    """All open questions of a step; `decisions` answer them by position."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class Answer(BaseModel):
    """A part of what a person says; an unknown field is refused: it may mean anything."""

    model_config = ConfigDict(extra="forbid")


class Reject(Answer):
    """Do not run it; the message goes to the model."""

    type: Literal["reject"]
    message: str = ""
