"""What the chat models that answer in this process have in common."""

import asyncio
import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override

from skills_agent.nodes.model_call import PromptRecords

_CHARACTERS_PER_TOKEN = 4
_WORD = re.compile(r"\s*\S+|\s+$")


class LocalChatModel(BaseChatModel):
    """A chat model whose reply is a pure function of the messages and the bound tools.

    Pure, because a graph asks again after a crash, a resume or an interrupt, and from parallel
    branches: a model that counted its calls would give another answer then.
    """

    @abstractmethod
    def reply(
        self, messages: Sequence[BaseMessage], tools: frozenset[str], records: PromptRecords | None
    ) -> AIMessage:
        """Return the next message.

        `tools` are the names of the bound tools; `records` are what the prompt was rendered from, where the
        agent hands them over.
        """

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with tools that it may call."""
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=schemas, tool_choice=tool_choice, **kwargs)

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        return LangSmithParams(
            **{
                **params,
                "ls_provider": "skills-agent",
                "ls_model_name": kwargs.get("model") or self._llm_type,
            }
        )

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._whole(messages, stop, kwargs))])

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = await asyncio.to_thread(self._whole, messages, stop, kwargs)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _chunks(self._whole(messages, stop, kwargs)):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(await asyncio.to_thread(self._whole, messages, stop, kwargs)):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _whole(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AIMessage:
        names = frozenset(str(tool["function"]["name"]) for tool in kwargs.get("tools") or ())
        message = self.reply(messages, names, kwargs.get("records"))
        metadata = {**message.response_metadata, "model_name": self._llm_type}
        update: dict[str, Any] = {"response_metadata": metadata}
        if isinstance(message.content, str):
            update["content"] = _before(message.content, stop)
        if message.usage_metadata is None:
            update["usage_metadata"] = _usage(messages, message)
        return message.model_copy(update=update)


def fingerprint(messages: Sequence[BaseMessage]) -> str:
    """Return a short digest of a prompt: part of a reply's ids, so that two replies never share one."""
    digest = hashlib.sha256()
    for message in messages:
        digest.update(f"{message.type}\0{message.id}\0{message.text}\0".encode("utf-8", "replace"))
    return digest.hexdigest()[:12]


def _before(text: str, stop: list[str] | None) -> str:
    for mark in stop or ():
        text = text.split(mark, 1)[0]
    return text


def _usage(messages: Sequence[BaseMessage], reply: AIMessage) -> UsageMetadata:
    """Estimate tokens from characters: there is no tokenizer here to count them."""
    said = len(reply.text) + sum(len(_arguments(call)) + len(call["name"]) for call in reply.tool_calls)
    read = sum(len(message.text) for message in messages)
    tokens_in, tokens_out = (-(-count // _CHARACTERS_PER_TOKEN) for count in (read, said))
    return UsageMetadata(
        input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out
    )


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    pieces = _WORD.findall(message.content) if isinstance(message.content, str) else [message.content]
    for piece in pieces:
        yield ChatGenerationChunk(message=AIMessageChunk(content=piece, id=message.id))
    for index, call in enumerate(message.tool_calls):
        chunk = tool_call_chunk(name=call["name"], args=_arguments(call), id=call["id"], index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", id=message.id, tool_call_chunks=[chunk]))
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content="",
            id=message.id,
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
            chunk_position="last",
        )
    )


def _arguments(call: ToolCall) -> str:
    return json.dumps(call["args"], ensure_ascii=False)
