"""Chat templates and servers that refuse what others take, as rules on a request of the OpenAI protocol.

Each family refuses with the words of one that is real, by which the agent has to know what is refused.

- Mistral (7B, Nemo, Large, Ministral): roles alternate after an optional system message, with results in
  between; api.mistral.ai takes no `user` after `tool`, and ids of nine letters and digits.
- Gemma 2: no system message; Llama 2, Cohere: roles alternate.
- A server without a parser for tools, and one whose template knows none.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

Body = Mapping[str, Any]
Family = Callable[[Body], Iterator[str]]

ALTERNATE: Final = (
    "After the optional system message, conversation roles must alternate user and assistant roles "
    "except for tool calls and results."
)
AFTER_TOOL: Final = "Unexpected role 'user' after role 'tool'"
IDS: Final = "Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9."
NO_SYSTEM: Final = "System role not supported"
NO_TOOLS: Final = "registry.ollama.ai/library/gemma:latest does not support tools"


def plain_faults(body: Body) -> Iterator[str]:
    """Yield what no template that renders texts can read; nobody says it in words that are known."""
    for at, message in enumerate(body["messages"]):
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if content is None or (isinstance(content, list) and all(each["type"] == "text" for each in parts)):
            yield f"messages.{at}: content {content!r} is no text"
        for call in message.get("tool_calls") or ():
            arguments = call["function"]["arguments"]
            if not isinstance(arguments, str) or not isinstance(json.loads(arguments), dict):
                yield f"messages.{at}: arguments {arguments!r} are no text of an object"
    roles = [message["role"] for message in body["messages"]]
    if "system" in roles[1:]:
        yield f"a system message elsewhere than at the head: {roles}"


def _alternation(messages: Sequence[Body]) -> Iterator[str]:
    speaker = ""
    for message in messages:
        role = message["role"]
        if role == "tool":
            if speaker != "assistant with calls":
                yield "Unexpected role 'tool'"
            continue
        is_next = role == ("user" if speaker in {"", "assistant"} else "assistant")
        # A person who speaks before the model has answered to a result: `mistral` refuses it in other words.
        is_next |= role == "user" and speaker == "assistant with calls"
        if not is_next:
            yield ALTERNATE
        speaker = f"{role} with calls" if message.get("tool_calls") else role
    if speaker == "assistant":
        yield "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"


def _after_system(body: Body) -> Sequence[Body]:
    messages: Sequence[Body] = body["messages"]
    return messages[1:] if messages[0]["role"] == "system" else messages


def alternating(body: Body) -> Iterator[str]:
    """Yield what Llama 2 and Cohere refuse."""
    yield from plain_faults(body)
    yield from _alternation(_after_system(body))


def mistral(body: Body) -> Iterator[str]:
    """Yield what Mistral's templates and its API refuse."""
    yield from alternating(body)
    roles = [message["role"] for message in body["messages"]]
    if any(pair == ("tool", "user") for pair in itertools.pairwise(roles)):
        yield AFTER_TOOL
    for message in body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        for call_id in [*ids, *filter(None, [message.get("tool_call_id")])]:
            if not re.fullmatch("[a-zA-Z0-9]{9}", call_id):
                yield IDS.format(call_id)


def gemma(body: Body) -> Iterator[str]:
    """Yield what Gemma's template refuses."""
    yield from plain_faults(body)
    if body["messages"][0]["role"] == "system":
        yield NO_SYSTEM
    yield from _alternation(_after_system(body))


def without_tools(body: Body) -> Iterator[str]:
    """Yield what Ollama says of a model whose template knows no tools."""
    if body.get("tools"):
        yield NO_TOOLS


FAMILIES: Final[Mapping[str, Family]] = {"alternating": alternating, "mistral": mistral, "gemma": gemma}
"""Those behind which the agent works."""
