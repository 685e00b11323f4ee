"""The graph inside someone else's program."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.services import HostParts
from tests.agents import call, calls, write_skill

REPLIES: list[Any] = [calls(call("load_skill", name="alpha"), call("list_dir")), "three apples"]


@pytest.fixture(autouse=True)
def skill(skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n", scripts__run_py="print('ran')\n")


def test_help_shows_and_explains_everything_that_a_program_may_bring() -> None:
    page, misspelt = build_graph.__doc__ or "", {"approver": ()}
    assert [name for name in HostParts.__annotations__ if f"`{name}`" not in page] == []
    with pytest.raises(TypeError, match="unexpected keyword argument 'approver'"):
        build_graph(Settings(), **misspelt)  # type: ignore[arg-type]


class Outer(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def test_it_runs_without_a_checkpointer_and_without_a_context(workspace: Path) -> None:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    graph = build_graph(settings, model=ScriptedChatModel(REPLIES)).compile()
    given: Any
    for given in ([("user", "hi")], "hi", [{"role": "user", "content": "hi"}], [HumanMessage("hi")]):
        assert graph.invoke({"messages": given})["answer"] == "three apples"
