"""A chat model that plays a list of replies: for tests and evals, instead of mocks."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGenerationChunk
from pydantic import Field
from typing_extensions import override

from skills_agent.graph.models.local import LocalChatModel, fingerprint
from skills_agent.nodes.model_call import ModelCall
from skills_agent.nodes.model_errors import ModelError
from skills_agent.state.transcript import is_synthetic, marks_of


class _WrittenCall(msgspec.Struct):
    name: str
    args: dict[str, Any] | None = None
    id: str | None = None


class _WrittenReply(msgspec.Struct, forbid_unknown_fields=True):
    content: str | list[Any] | None = None
    tool_calls: list[_WrittenCall] | None = None


Reply = AIMessage | str | Mapping[str, Any]
ScriptEntry = Reply | Callable[[Sequence[BaseMessage]], Reply]
"""A reply: a message, its text, `{"content": ..., "tool_calls": [{"name", "args"}]}`, or a function of the
prompt that returns one of these."""

_ID = re.compile(r"scripted-(\d+)-")


class ScriptedChatModel(LocalChatModel):
    """Play `script`: the n-th reply of a thread is the n-th entry.

    Which one is next is read off the prompt, so a run that is resumed, repeated or forked gets the replies it
    would have got. Replies that the graph wrote itself (`["skills_agent"]["synthetic"]`) do not count. A
    stream of it has one part.
    """

    script: list[Any] = Field(default_factory=list)
    """Entries, each a ScriptEntry."""

    def __init__(self, script: Sequence[ScriptEntry] = (), **fields: Any) -> None:
        super().__init__(**{"script": list(script), **fields})

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @override
    def reply(
        self, messages: Sequence[BaseMessage], tools: frozenset[str], records: ModelCall | None
    ) -> AIMessage:
        """Return the entry that is next in this prompt; ids depend on the prompt alone."""
        position = _position(messages)
        if position >= len(self.script):
            last = messages[-1].text[:80] if messages else ""
            raise ModelError(
                f"The scripted model has {len(self.script)} replies and was asked for one more, "
                f"after: {last!r}"
            )
        entry = self.script[position]
        message = as_message(entry(messages) if callable(entry) else entry)
        mark = fingerprint(messages)
        calls = [
            {**call, "id": call["id"] or f"call-{position}-{index}-{mark}"}
            for index, call in enumerate(message.tool_calls)
        ]
        return message.model_copy(update={"id": f"scripted-{position}-{mark}", "tool_calls": calls})

    @override
    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        (whole,) = self._generate(messages, **kwargs).generations
        fields = whole.message.model_dump(exclude={"type"})
        yield ChatGenerationChunk(message=AIMessageChunk(chunk_position="last", **fields))


def read_script(path: Path) -> list[ScriptEntry]:
    """Read the replies of a `scripted:<path>` model from a JSON file. Raises ModelError."""
    try:
        entries: list[ScriptEntry] = msgspec.json.decode(path.read_bytes())
        msgspec.convert(entries, list[str | _WrittenReply])
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelError(
            f"Cannot take replies from {path}: {error}. It must hold a JSON list of texts "
            'or of {"content": ..., "tool_calls": [{"name": ..., "args": {...}}]}.'
        ) from error
    return entries


def as_message(entry: Reply) -> AIMessage:
    """Return a fresh message for an entry. Raises ValidationError for anything else."""
    if isinstance(entry, AIMessage):
        return entry.model_copy(deep=True)
    if isinstance(entry, str):
        return AIMessage(content=entry)
    reply = msgspec.convert(entry, _WrittenReply)
    calls = [tool_call(name=call.name, args=call.args or {}, id=call.id) for call in reply.tool_calls or ()]
    return AIMessage(content=reply.content or "", tool_calls=calls)


def _position(messages: Sequence[BaseMessage]) -> int:
    """Count the replies; where a history was trimmed, the ids of those left say how many there were.

    What stands in the prompt for summarized turns says it, too.
    """
    replies = [
        message for message in messages if isinstance(message, AIMessage) and not is_synthetic(message)
    ]
    matches = (_ID.match(reply.id or "") for reply in replies)
    summarized: int = sum(marks_of(message).get("replies", 0) for message in messages)
    return max([summarized + len(replies), *(int(match[1]) + 1 for match in matches if match)])
