"""LangChain's own suite for chat models, on what the two local models share: streams, usage, tool calls."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from skills_agent.graph.models.scripted import ScriptedChatModel

if TYPE_CHECKING:
    from langchain_tests.integration_tests import ChatModelIntegrationTests
else:
    ChatModelIntegrationTests = pytest.importorskip(
        "langchain_tests.integration_tests", reason="the extra `dev` brings it"
    ).ChatModelIntegrationTests

SCRIPT: Sequence[tuple[str, str, dict[str, Any]]] = (
    ("magic_function_no_args", "magic_function_no_args", {}),
    ("magic_function", "magic_function", {"input": 3}),
    ("pirate greeting", "greeting_generator", {"answer_style": "Pirate"}),
    ("你好", "unicode_customer", {"customer_name": "你好啊集团", "description": "技术"}),
    ("こんにちは", "unicode_customer", {"customer_name": "こんにちは株式会社", "description": "会社"}),
    ("weather", "get_weather", {"location": "San Francisco, CA"}),
)
"""The suite's questions, and the calls that a model is expected to answer them with."""


def plays(messages: Sequence[BaseMessage]) -> AIMessage | str:
    """Answer the suite's last question."""
    last = messages[-1]
    text = last.text.lower() if isinstance(last, HumanMessage) else ""
    for words, name, args in SCRIPT:
        if words in text:
            return AIMessage("", tool_calls=[{"name": name, "args": args, "id": None}])
    return "Hello there."


@pytest.mark.slow
class TestScripted(ChatModelIntegrationTests):
    """A script says what is called, whatever `tool_choice` and a schema ask for."""

    chat_model_class = ScriptedChatModel
    chat_model_params = {"script": [plays] * 12}  # noqa: RUF012 - the suite's property
    has_tool_choice = False
    has_structured_output = False
