"""Breakpoints of Claude's prompt cache on Vertex and Bedrock, in the forms that LangChain's packages take.

The packages are the host's and known by the names of their classes, which these stand-ins have. What
langchain-aws 1.9.1 and langchain-google-vertexai 3.2.5 make of these forms was read off their requests.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field
from typing_extensions import override

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from tests.agents import call, calls

MARK = {"cache_control": {"type": "ephemeral"}}
POINT = {"cachePoint": {"type": "default"}}


class Recording(ScriptedChatModel):
    """Keeps what it is asked."""

    prompts: list[Any] = Field(default_factory=list)
    tools: list[Any] = Field(default_factory=list)

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.tools.extend(tools)
        return super().bind_tools([each for each in tools if each != POINT], **kwargs)

    @override
    def reply(self, messages: Sequence[BaseMessage], *rest: Any) -> AIMessage:
        self.prompts.append(messages)
        return super().reply(messages, *rest)


class ChatAnthropicVertex(Recording):
    """Stands in for that of langchain-google-vertexai."""


class ChatBedrockConverse(Recording):
    """Stands in for that of langchain-aws."""

    model_id: str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    base_model_id: str | None = None


def second_prompt(workspace: Path, model: Recording) -> list[BaseMessage]:
    (workspace / "notes.txt").write_text("12 baskets\n")
    model.script = [calls(call("read_file", path="notes.txt")), "12."]
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    agent = build_graph(settings, model=model).compile(InMemorySaver())
    asked: Any = {"messages": [("user", "How many?")]}
    agent.invoke(asked, {"configurable": {"thread_id": "1"}})
    return list(model.prompts[-1])


def test_vertex_takes_them_from_blocks_and_from_tool_messages(workspace: Path) -> None:
    model = ChatAnthropicVertex()
    head, asked, _, result = second_prompt(workspace, model)
    assert isinstance(head, SystemMessage)
    assert isinstance(asked, HumanMessage)
    assert isinstance(result, ToolMessage)
    assert all(MARK.items() <= each.content[-1].items() for each in (head, asked))  # type: ignore[union-attr]
    assert MARK.items() <= result.additional_kwargs.items()
    assert "cache_control" not in str(result.content)
    assert "cache_control" not in str([getattr(each, "extras", None) for each in model.tools])


def test_bedrock_takes_blocks_of_their_own(workspace: Path) -> None:
    model = ChatBedrockConverse()
    head, asked, _, result = second_prompt(workspace, model)
    assert [each.content[-1] for each in (head, asked, result)] == [POINT] * 3
    assert model.tools[-1] == POINT
    assert "cache_control" not in str(model.prompts)


@pytest.mark.parametrize(
    ("model_id", "base_model_id", "takes"),
    [
        ("anthropic.claude-opus-5-v1:0", None, True),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", None, True),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x", "anthropic.claude-haiku-4-5", True),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x", None, False),
        ("anthropic.claude-3-haiku-20240307-v1:0", None, False),
        ("meta.llama4-maverick-17b-instruct-v1:0", None, False),
    ],
)
def test_a_model_that_refuses_cache_points_gets_none(
    workspace: Path, model_id: str, base_model_id: str | None, takes: bool
) -> None:
    model = ChatBedrockConverse(model_id=model_id, base_model_id=base_model_id)
    prompt = second_prompt(workspace, model)
    assert ("cachePoint" in str(prompt), POINT in model.tools) == (takes, takes)
