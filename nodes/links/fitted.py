"""fitted: a result as it is kept: an answer to its call, bounded, of whole text, and readable again.

A tool of a host may return anything. A result is in the journal and in the checkpoints, and the model reads
it again in every step that follows.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command
from pydantic import BaseModel

from skills_agent.nodes.effects import as_list, messages_in, tool_messages
from skills_agent.nodes.links.attempt import Acting, Attempt, Rest, with_note
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.scripts.output import Capture
from skills_agent.state.schema import AgentUpdate
from skills_agent.state.transcript import outcome_of
from skills_agent.state.whole_text import with_whole_text

logger = logging.getLogger(__name__)

MAX_TEXT: Final = 100_000
"""Bytes of the text of one result of a host's tool that the model may see."""
MAX_MEDIA: Final = 10_000_000
"""Characters of all images and files of one result."""
MAX_BLOCKS: Final = 1_000
MAX_ARTIFACT: Final = 256_000_000
"""Bytes of an artifact as it is stored; databases take little more in one value."""


def fitted(attempt: Attempt, rest: Rest) -> Steps[Any]:
    """Return what a tool returned as it can be kept, with what the model is told before it."""
    produced = yield from rest(attempt)
    is_kept = attempt.at.running.current() is not None
    for message in messages_in(produced):
        _fit(message, attempt.name, attempt.at, is_kept=is_kept)
    produced = _with_answer(produced, attempt)
    for note in attempt.notes:
        produced = with_note(produced, note)
    return produced


def _with_answer(produced: Any, attempt: Attempt) -> Any:
    """Return what a tool returned with an answer to its call.

    A host's tool may return a Command without one, or a message that answers some other call. An open call
    counts as one that did not run, and providers refuse what comes after it.
    """
    answers = tool_messages(produced)
    if any(answer.tool_call_id == attempt.id for answer in answers):
        return produced
    if answers:
        answers[0].tool_call_id = attempt.id
        return produced
    text, call_id = f"{attempt.name} returned, and said nothing.", attempt.id
    message = ToolMessage(text, tool_call_id=call_id, name=attempt.name, id=f"silent-{call_id}")
    return [*as_list(produced), Command(update=AgentUpdate(messages=[message]))]


def _fit(message: BaseMessage, tool: str, at: Acting, *, is_kept: bool) -> None:
    """Bound a message as it is kept (`is_kept`), or given to the caller alone."""
    message.content = with_whole_text(message.content)
    if tool in at.host_tools:
        message.content = _bounded(message.content, MAX_TEXT)
    elif outcome_of(message).get("exit_code", 0) != 0 and isinstance(message, ToolMessage):
        message.status = "error"  # The program ran and failed, or a limit ended it.
    if is_kept and isinstance(message, ToolMessage):
        message.artifact = _readable(message.artifact, tool, at)
        extras = message.additional_kwargs, message.response_metadata
        if any(extras) and at.stored_size(extras) is None:
            logger.warning("what a tool noted beside its result cannot be kept", extra={"tool": tool})
            message.additional_kwargs, message.response_metadata = {}, {}


def _readable(artifact: Any, tool: str, at: Acting) -> Any:
    """Return an artifact as it is, else as plain values, else that it was left out."""
    if artifact is None:
        return None
    size = at.stored_size(artifact)
    if size is None:
        logger.warning("the artifact of a tool cannot be kept as it is", extra={"tool": tool})
        try:
            artifact = with_whole_text(msgspec.to_builtins(artifact, enc_hook=_fields, str_keys=True))
        except Exception:  # noqa: BLE001 - the code of a host's class may raise anything
            return {"left_out": type(artifact).__name__}
        size = at.stored_size(artifact)
    return artifact if size is not None and size <= MAX_ARTIFACT else {"left_out": type(artifact).__name__}


def _fields(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError


def _bounded(content: Any, limit: int) -> Any:
    if isinstance(content, str):
        return _cut(content, limit)
    kept: list[Any] = []
    media = MAX_MEDIA
    for block in content[:MAX_BLOCKS]:
        text = block if isinstance(block, str) else _text_of(block)
        if text is None:
            size = len(repr(block))
            media -= size
            kept.append(block if media >= 0 else _left_out(f"{size:,} characters"))
            continue
        shown = _cut(text, limit) if limit > 0 else f"[{len(text.encode())} bytes cut]"
        limit -= len(shown.encode())
        kept.append(block if shown == text else {"type": "text", "text": shown})
    more = len(content) - MAX_BLOCKS
    return kept + ([_left_out(f"{more:,} more blocks")] if more > 0 else [])


def _cut(text: str, limit: int) -> str:
    """Return the beginning and the end of a text of more bytes than `limit`, as of a script's output."""
    if len(text) <= limit // 4:  # no character has more than four bytes
        return text
    capture = Capture(limit)
    capture.add(text.encode())
    capture.close()
    return capture.text() if capture.cut else text


def _text_of(block: Mapping[str, Any]) -> str | None:
    text = block.get("text")
    return text if block.get("type") == "text" and isinstance(text, str) and len(block) <= 4 else None


def _left_out(what: str) -> dict[str, Any]:
    return {"type": "text", "text": f"[{what} left out: over the limit of one result]"}
