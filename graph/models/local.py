"""What the chat models that answer in this process have in common."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override

from skills_agent.nodes.model_call import ModelCall


class LocalChatModel(BaseChatModel):
    """A chat model whose reply is a pure function of the messages and the bound tools.

    A graph asks again after a crash, a resume or an interrupt: a model that counted would answer otherwise.
    """

    @abstractmethod
    def reply(
        self, messages: Sequence[BaseMessage], tools: frozenset[str], records: ModelCall | None
    ) -> AIMessage:
        """Return the next message; `tools` are names, and the prompt was rendered from `records`."""

    @override
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with tools that it may call."""
        # What a provider would run has no name of a function.
        own = [tool for tool in tools if not (isinstance(tool, dict) and tool.get("type") != "function")]
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in own], **kwargs)

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        names = frozenset(
            str(tool["function"]["name"]) for tool in kwargs.get("tools") or () if "function" in tool
        )
        message = self.reply(messages, names, kwargs.get("records"))
        # What LangChain knows of a reply: the name of the model, and about its tokens.
        metadata = {**message.response_metadata, "model_name": self._llm_type}
        update: dict[str, Any] = {"response_metadata": metadata}
        if message.usage_metadata is None:
            given, written = (count_tokens_approximately(each) for each in (messages, [message]))
            usage = UsageMetadata(input_tokens=given, output_tokens=written, total_tokens=given + written)
            update["usage_metadata"] = usage
        return ChatResult(generations=[ChatGeneration(message=message.model_copy(update=update))])


def fingerprint(messages: Sequence[BaseMessage]) -> str:
    """Return a short digest of a prompt: part of a reply's ids, so that two replies never share one."""
    digest = hashlib.sha256()
    for message in messages:
        digest.update(f"{message.type}\0{message.id}\0{message.text}\0".encode("utf-8", "replace"))
    return digest.hexdigest()[:12]
