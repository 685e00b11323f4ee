"""The scripted model: which reply is next is read off the prompt."""

from typing import Any

import msgspec
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from skills_agent.graph.models.scripted import ScriptedChatModel, ScriptEntry
from skills_agent.nodes.model_errors import ModelError

CALL = {"name": "read_file", "args": {"path": "a.txt"}}
TWO: list[ScriptEntry] = ["First.", {"content": "Reading.", "tool_calls": [CALL, {"name": "list_dir"}]}]


def test_the_same_prompt_gets_the_same_reply_however_often_it_is_asked() -> None:
    model = ScriptedChatModel(TWO)
    prompt = [HumanMessage("go", id="1"), AIMessage("First.", id="2"), HumanMessage("on", id="3")]
    first, second = model.invoke(prompt), model.invoke(prompt)
    assert first == second
    assert first is not second
    assert first.tool_calls[0]["id"] != first.tool_calls[1]["id"]


def test_a_trimmed_history_does_not_start_the_script_again() -> None:
    model = ScriptedChatModel(["one", "two", "three"])
    second = model.invoke([HumanMessage("a"), model.invoke("a"), HumanMessage("b")])
    assert second.text == "two"
    assert model.invoke([SystemMessage("Summary."), second, HumanMessage("c")]).text == "three"
    assert len({model.invoke([HumanMessage(text)]).id for text in ("a", "b", "c")}) == 3


def test_what_no_script_can_play_is_told() -> None:
    with pytest.raises(ModelError, match=r"1 repl.*'and now\?'"):
        ScriptedChatModel(["only"]).invoke([HumanMessage("go"), AIMessage("only"), HumanMessage("and now?")])
    odd: list[Any] = [3, {"contents": "typo"}]
    for entry, said in zip(odd, ("int", "contents"), strict=True):
        with pytest.raises(msgspec.ValidationError, match=said):
            ScriptedChatModel([entry]).invoke("go")


def test_a_script_is_not_changed_by_who_gets_its_replies() -> None:
    model = ScriptedChatModel([AIMessage("one", additional_kwargs={"a": [1]})])
    model.invoke("go").additional_kwargs["a"].append(2)
    assert model.invoke("go").additional_kwargs == {"a": [1]}
