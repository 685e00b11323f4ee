"""What a tool returned, as it is kept: bounded, of whole text, and such that the thread can be read again.

A tool of a host may return anything. A result is in the journal and in the checkpoints, and the model reads
it again in every step that follows.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command
from pydantic import BaseModel

from skills_agent.nodes.effects import as_list
from skills_agent.skills.scripts.output import Capture
from skills_agent.skills.text import cut
from skills_agent.state.transcript import outcome_of
from skills_agent.state.whole_text import whole_text, with_whole_text

logger = logging.getLogger(__name__)

KEEP: Final = "keep_output"
"""In a tool's metadata: True keeps the whole of a result that is cut, as the artifact of its message."""
MAX_MEDIA: Final = 10_000_000
"""Characters of all images and files of one result."""
MAX_BLOCKS: Final = 1_000
MAX_ARTIFACT: Final = 256_000_000
"""Bytes of an artifact as it is stored; databases take little more in one value."""
_MAX_SHOWN: Final = 2_000
"""Characters that stand for an artifact that cannot be kept."""


@dataclass(frozen=True)
class ResultLimits:
    """How much of the results of a host's tools is kept."""

    tools: Mapping[str, bool]
    """Names of the host's tools, and whether the whole of a cut result is kept. The agent's own tools bound
    what they return themselves."""
    stored_size: Callable[[Any], int | None]
    """Returns the bytes of a value as it is stored; None for one that cannot be stored, or read again."""
    text: int = 100_000
    """Bytes that the model may see."""

    def fit(self, produced: Any, tool: str, *, is_kept: bool) -> Any:
        """Return what a ToolNode handed back, as it is kept (`is_kept`), or given to the caller alone."""
        for message in _messages(produced):
            self._fit(message, tool, is_kept=is_kept)
        return produced

    def _fit(self, message: BaseMessage, tool: str, *, is_kept: bool) -> None:
        if tool in self.tools:
            content = with_whole_text(message.content)
            message.content = _bounded(content, self.text)
            is_cut = message.content != content
            if is_cut and self.tools[tool] and isinstance(message, ToolMessage) and message.artifact is None:
                message.artifact = content
        else:
            message.content = with_whole_text(message.content)
            if isinstance(message, ToolMessage) and outcome_of(message).get("exit_code", 0) != 0:
                message.status = "error"  # The program ran and failed, or a limit ended it.
        if is_kept and isinstance(message, ToolMessage):
            message.artifact = self._kept(message.artifact, tool)
            extras = message.additional_kwargs, message.response_metadata
            if any(extras) and self.stored_size(extras) is None:
                logger.warning("what a tool noted beside its result cannot be kept", extra={"tool": tool})
                message.additional_kwargs, message.response_metadata = {}, {}

    def _kept(self, artifact: Any, tool: str) -> Any:
        if artifact is None:
            return None
        size = self.stored_size(artifact)
        if size is None:
            logger.warning("the artifact of a tool cannot be kept as it is", extra={"tool": tool})
            artifact = _plain(artifact)
            size = self.stored_size(artifact)
        if size is not None and size <= MAX_ARTIFACT:
            return artifact
        what = "not stored" if size is None else f"{size:,} bytes, over the limit of {MAX_ARTIFACT:,}"
        return {"left_out": f"{type(artifact).__name__}: {what}"}


def _messages(produced: Any) -> list[BaseMessage]:
    updates = [each.update if isinstance(each, Command) else each for each in as_list(produced)]
    lists = [each.get("messages", []) for each in updates if isinstance(each, dict)]
    return [message for each in lists for message in as_list(each) if isinstance(message, BaseMessage)]


def _bounded(content: Any, limit: int) -> Any:
    return _cut(content, limit) if isinstance(content, str) else _bounded_blocks(content, limit)


def _cut(text: str, limit: int) -> str:
    """Return the beginning and the end of a text of more bytes than `limit`, as of a script's output."""
    if len(text) <= limit // 4:  # no character has more than four bytes
        return text
    capture = Capture(limit)
    capture.add(text.encode())
    capture.close()
    return capture.text() if capture.cut else text


def _bounded_blocks(blocks: list[Any], limit: int) -> list[Any]:
    kept: list[Any] = []
    media = MAX_MEDIA
    for block in blocks[:MAX_BLOCKS]:
        text = block if isinstance(block, str) else _text_of(block)
        if text is None:
            size = len(repr(block))
            media -= size
            kept.append(
                block if media >= 0 else _left_out(f"{block.get('type', 'block')} of {size:,} characters")
            )
            continue
        shown = _cut(text, limit) if limit > 0 else ""
        limit -= len(shown.encode())
        if shown == text:
            kept.append(block)
        else:
            kept.append({"type": "text", "text": shown or f"[{len(text.encode())} bytes cut]"})
    if len(blocks) > MAX_BLOCKS:
        kept.append(_left_out(f"{len(blocks) - MAX_BLOCKS:,} more blocks"))
    return kept


def _text_of(block: Mapping[str, Any]) -> str | None:
    text = block.get("text")
    return text if block.get("type") == "text" and isinstance(text, str) and len(block) <= 4 else None


def _left_out(what: str) -> dict[str, Any]:
    return {"type": "text", "text": f"[{what} left out: over the limit of one result]"}


def _plain(artifact: Any) -> Any:
    """Return an object as JSON where its fields say what it is, else how it shows itself."""
    try:
        return with_whole_text(msgspec.to_builtins(artifact, enc_hook=_fields, str_keys=True))
    except Exception:  # noqa: BLE001 - the code of a host's class may raise anything
        return {"type": type(artifact).__name__, "text": cut(whole_text(shown(artifact)), _MAX_SHOWN)}


def _fields(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise NotImplementedError


def shown(value: object) -> str:
    """Return how an object shows itself; its class where even that fails."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the code of a host's class may raise anything
        return type(value).__name__
