"""One update that does what two do, for every channel that a first step writes."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from skills_agent.state.reducers import spent
from skills_agent.state.updates import applied, joined


def test_a_joined_update_does_what_two_do() -> None:
    state: Any = {
        "messages": [HumanMessage("Hi", id="1")],
        "usage": spent(1, model_calls=2),
        "answer": "Old.",
    }
    first: Any = {
        "messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Hello", id="2")],
        "usage": spent(2),
        "answer": "",
        "skills_loaded": {"alpha": {"order": 1}, "beta": {"order": 2}},
        "verdicts": {},
    }
    second: Any = {
        "messages": [AIMessage("Hey.", id="3")],
        "usage": spent(2, model_calls=1, input_tokens=7),
        "answer": "Hey.",
        "skills_loaded": {"beta": {"order": 3}},
    }
    after: Any = applied(applied(state, first), second)
    assert applied(state, joined(first, second)) == after
    assert [each.id for each in after["messages"]] == ["2", "3"]
    assert (after["usage"]["this_turn"]["model_calls"], after["usage"]["thread"]["model_calls"]) == (1, 3)
    assert after["skills_loaded"] == {"alpha": {"order": 1}, "beta": {"order": 3}}
    assert (after["answer"], after["verdicts"]) == ("Hey.", {})
