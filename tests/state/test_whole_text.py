"""Text without halves of characters: nothing can write them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from skills_agent.state.whole_text import whole_text, with_whole_text

ANY_TEXT = st.text(st.characters(categories=["L", "Cs", "So", "Cc"]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("größer", "größer"),
        ("\ud83d\ude00", "\U0001f600"),  # an emoji that came in two parts
        ("a\ud800b", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("caf\udce9", "caf\ufffd"),  # a byte of a command line that is no UTF-8
    ],
)
def test_halves_become_one_character_or_none(text: str, expected: str) -> None:
    assert whole_text(text) == expected


VALUES = st.recursive(
    ANY_TEXT | st.integers() | st.none(), lambda each: st.lists(each) | st.dictionaries(ANY_TEXT, each)
)


@given(VALUES)
def test_every_text_of_a_value_is_whole_and_stays_as_it_is(value: Any) -> None:
    whole = with_whole_text(value)
    json.dumps(whole, ensure_ascii=False).encode()
    assert with_whole_text(whole) == whole


def test_messages_and_commands_are_made_whole() -> None:
    call = {"name": "write_file", "args": {"path": "\ud800"}, "id": "c\ud800", "type": "tool_call"}
    message = with_whole_text(AIMessage([{"type": "text", "text": "\ud800"}], tool_calls=[call]))
    assert message.content == [{"type": "text", "text": "\ufffd"}]
    assert message.tool_calls == [{**call, "args": {"path": "\ufffd"}, "id": "c\ufffd"}]
    command: Command[Any] = with_whole_text(
        Command(resume={"message": "\ud800"}, update={"messages": [HumanMessage("\ud800")]})
    )
    assert command.resume == {"message": "\ufffd"}
    assert command.update["messages"][0].content == "\ufffd"  # type: ignore[index]  # of this Command


def test_what_is_nested_without_end_is_taken() -> None:
    deep: list[Any] = []
    deep.append(deep)
    assert with_whole_text(deep)
