"""Prompts of transcripts as callers bring them."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from skills_agent.nodes.conversation import NO_TEXT
from skills_agent.nodes.prompt import render_within
from skills_agent.state.records import SummaryRecord
from skills_agent.state.schema import AgentState

NOTE = "A note from the operator of this conversation, not from the user:\nBe brief."


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def calling(*ids: str) -> AIMessage:
    made: Any = [{"name": "look", "args": {}, "id": each} for each in ids]
    return AIMessage("", tool_calls=made)


def result(of: str) -> ToolMessage:
    return ToolMessage("seen", tool_call_id=of, name="look", id=f"result-{of}")


def prompt_of(messages: Sequence[AnyMessage], last: str | None = None) -> list[AnyMessage]:
    """Return the prompt behind its system message; `last` is what a summary covers last."""
    covered = SummaryRecord(text="All.", last=last or "", turns=1, turn=1, by="x", failure="")
    state: Any = {"summary": covered} if last else {}
    head, *conversation = render_within(100_000, messages, state, None, "")
    assert isinstance(head, SystemMessage)
    assert not any(isinstance(each, SystemMessage) for each in conversation)
    return conversation


def test_the_system_messages_at_the_beginning_are_the_end_of_the_one_at_the_head() -> None:
    developer = ChatMessage(content="Be brief.", role="developer")
    brought: list[AnyMessage] = [SystemMessage("Be kind."), developer, HumanMessage("x")]
    head, *others = render_within(100_000, brought, AgentState(), None, "")
    assert str(head.content).endswith("\n\nBe kind.\n\nBe brief.")
    assert [each.content for each in others] == ["x"]


def test_a_later_system_message_is_a_note_behind_the_results_that_it_came_before() -> None:
    shown = prompt_of([HumanMessage("x"), calling("a"), SystemMessage("Be brief."), result("a")])
    assert [each.type for each in shown] == ["human", "ai", "tool", "human"]
    assert shown[-1].content == NOTE


def test_a_covered_system_message_stays_as_a_note_and_no_result_without_its_call() -> None:
    brought: list[AnyMessage] = [SystemMessage("Be kind."), HumanMessage("x"), SystemMessage("Be brief.")]
    (only,) = prompt_of([*brought, AIMessage("y", id="last"), HumanMessage("z")], last="last")
    note, summary, *request = str(only.content).split("\n\n")
    assert (note, summary[:11], request) == (NOTE, "Summary of ", ["The user:", "z"])
    brought = [HumanMessage("x"), calling("a", "b"), result("b"), result("a"), HumanMessage("y")]
    assert [each.type for each in prompt_of(brought, last="result-a")] == ["human"]


@pytest.mark.parametrize(
    ("brought", "shown"),
    [
        ([HumanMessage("x"), HumanMessage("y")], "x\n\ny"),
        ([HumanMessage("x", name="Ada"), HumanMessage("y", name="Bo")], "Ada:\n\nx\n\nBo:\n\ny"),
        ([HumanMessage("x", name="Ada"), HumanMessage("y", name="Ada")], "x\n\ny"),
        ([HumanMessage([{"type": "text", "text": "x"}])], "x"),
        ([HumanMessage("x"), HumanMessage([IMAGE])], [{"type": "text", "text": "x"}, IMAGE]),
    ],
)
def test_what_stands_side_by_side_in_one_role_is_one_message(brought: Any, shown: Any) -> None:
    """Chat templates want roles to alternate. Nobody's words are taken for those of another one."""
    (only,) = prompt_of(brought)
    assert only.content == shown


@pytest.mark.parametrize(
    ("content", "shown"),
    [(" \n", NO_TEXT), ([], NO_TEXT), ([{"type": "text", "text": " "}, IMAGE], [IMAGE]), (" x", " x")],
)
def test_no_blank_text_is_sent(content: Any, shown: Any) -> None:
    (only,) = prompt_of([HumanMessage(content)])
    assert only.content == shown
