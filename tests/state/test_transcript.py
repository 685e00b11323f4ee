"""Questions about the transcript."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from skills_agent.state.transcript import in_call_order, is_synthetic, marks_of


@given(st.lists(st.integers(0, 4), max_size=5), st.randoms(use_true_random=False))
def test_answers_stand_in_the_order_of_their_calls(sizes: list[int], chance: random.Random) -> None:
    expected: list[AnyMessage] = []
    stored: list[AnyMessage] = []
    for turn, size in enumerate(sizes):
        ids = [f"{turn}-{number}" for number in range(size)]
        asked = AIMessage("", tool_calls=[tool_call(name="t", args={}, id=each) for each in ids])
        answers: list[AnyMessage] = [ToolMessage("x", tool_call_id=each) for each in ids]
        head: list[AnyMessage] = [HumanMessage("Go on."), asked]
        expected += [*head, *answers]
        stored += [*head, *chance.sample(answers, len(answers))]
    assert in_call_order(stored) == expected


def test_an_answer_to_no_call_is_left_out() -> None:
    """Providers refuse the whole conversation for it."""
    stray, answer = ToolMessage("x", tool_call_id="stray"), ToolMessage("x", tool_call_id="a")
    asked = AIMessage("", tool_calls=[tool_call(name="t", args={}, id="a")])
    assert in_call_order([stray, asked, stray, answer]) == [asked, answer]


@pytest.mark.parametrize("marks", ["x", None, [], 1, {"synthetic": None, "reused": None}])
def test_marks_of_any_type_from_a_client_are_none(marks: object) -> None:
    message = HumanMessage("hi", additional_kwargs={"skills_agent": marks})
    assert not is_synthetic(message)
    assert marks_of(message).get("replies") is None
