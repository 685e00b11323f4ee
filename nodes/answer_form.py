"""Answers in a form that the host wants: what the model is told of it, and how they are read from its reply.

A model gives such an answer as the arguments of a call, which any model with tools can, or as JSON in its
text, which some write without being asked to. A call of the form does nothing, so nobody judges it: it is the
last word of a turn.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from skills_agent.nodes.reply import strict_arguments
from skills_agent.skills.text import cut
from skills_agent.state.endings import fault_of
from skills_agent.state.transcript import is_synthetic, refusal

MAX_ANSWERS: Final = 3
"""Answers of one turn, one after the other, that may miss the form."""
MAX_FAULT: Final = 2_000
"""Characters of what is wrong with an answer."""
_FENCED: Final = re.compile(r"\A```(?:json)?\s*\n(.*)\n\s*```\Z", re.DOTALL)
_NOT_ALONE: Final = (
    "Not taken as the answer: it was called beside something else. Call it alone, when you know the results."
)


@dataclass(frozen=True)
class AnswerForm:
    """The form that every answer of an agent is to have."""

    name: str
    """As sentences name it."""
    check: Callable[[Any, str | None], Any]
    """Returns an answer as plain values, from what the model gave, and the tool that it gave it to (None: it
    is its text). Raises ValueError."""
    tools: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """What a model calls to answer, by name; none where its provider knows the form."""
    bound: Mapping[str, Any] = field(default_factory=dict)
    """What a provider's model is bound with that knows the form."""

    @property
    def instruction(self) -> str:
        """Return what the prompt's fixed part says of it."""
        if not self.tools:
            return f"Your answer is JSON of the schema {self.name}, and no text beside it."
        return (
            f"Your answer is a call of {self.name}, alone, when nothing else is left to do. A plain text is "
            "not taken for the answer."
        )

    def read(self, message: AIMessage) -> "Given":
        """Return what a model's reply gives of an answer."""
        own = [call for call in message.tool_calls if call["name"] in self.tools]
        calls = len(message.tool_calls) + len(message.invalid_tool_calls)
        if not calls:
            is_answer = not (fault_of(message) or is_synthetic(message))
            return self._in_text(message) if is_answer else Given()
        if not own:
            return Given()
        (call, *_), ids = own, [each["id"] or "" for each in own]
        if calls > 1:
            results = [refusal(id_, each["name"], _NOT_ALONE) for id_, each in zip(ids, own, strict=True)]
            return Given(results, fault=_NOT_ALONE if len(own) == calls else "")
        try:
            answer = self.check(call["args"], call["name"])
        except ValueError as error:
            fault = _complaint(error)
            return Given([refusal(ids[0], call["name"], fault)], fault=fault)
        text = json.dumps(answer, ensure_ascii=False)
        result = ToolMessage(text, tool_call_id=ids[0], name=call["name"], id=f"answered-{ids[0]}")
        return Given([result], answer)

    def given_up(self, messages: Sequence[AnyMessage], fault: str) -> str:
        """Return the agent's own word at the end of a turn in which no answer had the form."""
        count = sum(isinstance(message, AIMessage) for message in messages)
        times = "once" if count == 1 else f"{count} times"
        why = " ".join(fault.removeprefix("Not taken as the answer: ").split())
        text = f"The model answered {times}, and not in the form {self.name}. The last time: {why}"
        return cut(text, MAX_FAULT)

    def _in_text(self, message: AIMessage) -> "Given":
        text = str(message.text).strip()
        fenced = _FENCED.match(text)
        try:
            return Given(structured=self.check(strict_arguments(fenced[1] if fenced else text), None))
        except ValueError as error:
            looks_like_one = text.startswith(("{", "```"))
            return Given(fault=_complaint(error) if looks_like_one else "It was a plain text.")


def _complaint(error: ValueError) -> str:
    return cut(f"Not taken as the answer: {error}", MAX_FAULT)


class Given(NamedTuple):
    """What a reply gives of an answer."""

    results: Sequence[ToolMessage] = ()
    """The answers to its calls of the form."""
    structured: Any = None
    """The answer as plain values; None where it gives none."""
    fault: str = ""
    """What is wrong with it; empty where it is no answer, or one in the form."""
