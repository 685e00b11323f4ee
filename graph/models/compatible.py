"""Any server that speaks the OpenAI chat-completions protocol.

This module imports langchain-openai (a second or so): import it where such a model is made.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from openai import BaseModel
from typing_extensions import override

from skills_agent.graph.models.errors import UnreadableReplyError

_MISREAD = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What langchain-openai raises when a reply lacks what it reads from it."""


class CompatibleChatOpenAI(ChatOpenAI):
    """ChatOpenAI that says so when a server's answer is no chat completion.

    The library lets KeyError, TypeError, JSONDecodeError and others escape then, which cannot be
    told from bugs where the model is called. Here they are caught where the answer is read.
    """

    @classmethod
    @override
    def is_lc_serializable(cls) -> bool:
        """Return False: LangChain can load only what is in its own namespace."""
        return False

    @override
    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return what is sent, so that the client sends the parts that grow as they are.

        It would hold every message and every tool against a union of types, which changes nothing and takes
        0.12 ms a message: in a long thread more than the rest of a turn. What is in `extra_body` it leaves
        alone. `parse`, which is called where a `response_format` is wanted, needs to see them.
        """
        payload = super()._get_request_payload(*args, **kwargs)
        if "messages" in payload and "response_format" not in payload:
            as_they_are = {key: payload[key] for key in ("messages", "tools") if key in payload}
            payload |= {key: [] for key in as_they_are}
            payload["extra_body"] = {**(payload.get("extra_body") or {}), **as_they_are}
        return payload

    @override
    def _create_chat_result(
        self, response: dict[str, Any] | BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        try:
            result = super()._create_chat_result(response, generation_info)
        except _MISREAD as error:
            raise UnreadableReplyError(_cause(error)) from error
        if not result.generations:
            raise UnreadableReplyError("it holds no choices")
        return result

    @override
    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        try:
            return super()._convert_chunk_to_generation_chunk(
                chunk, default_chunk_class, base_generation_info
            )
        except _MISREAD as error:
            raise UnreadableReplyError(_cause(error)) from error

    @override
    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        count = 0
        with _reading():
            for chunk in super()._stream(*args, **kwargs):
                count += 1
                yield chunk
        _refuse_silence(count)

    @override
    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        count = 0
        with _reading():
            async for chunk in super()._astream(*args, **kwargs):
                count += 1
                yield chunk
        _refuse_silence(count)

    @override
    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with _reading():
            return super()._generate(*args, **kwargs)

    @override
    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with _reading():
            return await super()._agenerate(*args, **kwargs)


@contextmanager
def _reading() -> Iterator[None]:
    """Name what is not even JSON (nothing else is parsed during a call), and events that are no objects."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise UnreadableReplyError(_cause(error)) from error
    except AttributeError as error:
        if error.name != "model_dump":
            raise
        raise UnreadableReplyError("an event is no JSON object") from error


def _refuse_silence(chunks: int) -> None:
    if not chunks:
        raise UnreadableReplyError("the stream held no events")


def _cause(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
