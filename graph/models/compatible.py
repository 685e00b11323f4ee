"""Any server that speaks the OpenAI chat-completions protocol.

This module imports langchain-openai, which takes a second: import it where such a model is made.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from typing_extensions import override

from skills_agent.graph.langgraph_inside import ChatOpenAIHooks
from skills_agent.graph.models.errors import UnreadableReplyError, cause_of

_MISREAD = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What langchain-openai raises when a reply lacks what it reads from it."""
_NO_EVENTS = "the stream held no events"


class CompatibleChatOpenAI(ChatOpenAIHooks, ChatOpenAI):
    """ChatOpenAI that raises UnreadableReplyError when a server's answer is no chat completion."""

    skip_conversion: bool = False
    """Send messages and tools in `extra_body`, which the OpenAI client does not convert.

    The client holds each message against a union of types, which changes nothing here and takes 23 ms of CPU
    a call at 100 messages, 209 ms at 1,000. But what instruments the client then records empty prompts.
    """

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        """Return False: LangChain can load only what is in its own namespace."""
        return False

    @override
    def prepare_payload(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return what the client is called with. It needs to see the messages where a format is wanted."""
        if not self.skip_conversion or "messages" not in payload or "response_format" in payload:
            return payload
        moved = {key: payload[key] for key in ("messages", "tools") if key in payload}
        body = {**(payload.get("extra_body") or {}), **moved}
        return {**payload, **{key: [] for key in moved}, "extra_body": body}

    @override
    def reading(self) -> AbstractContextManager[None]:
        """Raise what goes wrong while a reply or a part of one is read as an UnreadableReplyError."""
        return _reading(*_MISREAD)

    @override
    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        chunk: ChatGenerationChunk | None = None
        with _reading(AttributeError):  # An event that is no JSON object.
            for chunk in super()._stream(*args, **kwargs):
                yield chunk
        if chunk is None:
            raise UnreadableReplyError(_NO_EVENTS)

    @override
    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        chunk: ChatGenerationChunk | None = None
        with _reading(AttributeError):  # An event that is no JSON object.
            async for chunk in super()._astream(*args, **kwargs):
                yield chunk
        if chunk is None:
            raise UnreadableReplyError(_NO_EVENTS)


@contextmanager
def _reading(*misread: type[Exception]) -> Iterator[None]:
    try:
        yield
    except misread as error:
        raise UnreadableReplyError(cause_of(error)) from error
