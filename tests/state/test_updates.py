"""The state after an update, by the reducers of its channels."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from skills_agent.state.reducers import spent
from skills_agent.state.updates import applied


def test_an_update_is_applied_by_the_reducers_of_the_channels() -> None:
    state: Any = {
        "messages": [HumanMessage("Hi", id="1")],
        "usage": spent(1, model_calls=2),
        "answer": "Old.",
        "skills_loaded": {"alpha": {"order": 1}, "beta": {"order": 2}},
    }
    update: Any = {
        "messages": [
            RemoveMessage(id=REMOVE_ALL_MESSAGES),
            HumanMessage("Hello", id="2"),
            AIMessage("Hey.", id="3"),
        ],
        "usage": spent(2, model_calls=1),
        "answer": "",
        "skills_loaded": {"beta": {"order": 3}},
    }
    after: Any = applied(state, update)
    assert [each.id for each in after["messages"]] == ["2", "3"]
    assert (after["usage"]["this_turn"]["model_calls"], after["usage"]["thread"]["model_calls"]) == (1, 3)
    assert after["skills_loaded"] == {"alpha": {"order": 1}, "beta": {"order": 3}}
    assert after["answer"] == ""
    assert state["answer"] == "Old."
