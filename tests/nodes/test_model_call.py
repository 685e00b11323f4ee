"""What is prepared once for many model calls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from tests.agents import write_skill


def test_tools_are_bound_once_for_all_turns_and_threads_that_are_shown_the_same(tmp_path: Path) -> None:
    bound: list[int] = []

    class CountingModel(ScriptedChatModel):
        def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
            bound.append(len(tools))
            return super().bind_tools(tools, **kwargs)

    write_skill(tmp_path / "skills", "alpha", "Counts apples.")
    settings = Settings(workspace=tmp_path, home=tmp_path, skills_dirs=(tmp_path / "skills",))
    model = CountingModel(script=["yes"] * 4)
    graph = build_graph(settings, model=model).compile(checkpointer=InMemorySaver())

    def say(thread: str) -> None:
        graph.invoke({"messages": [HumanMessage("hi")]}, {"configurable": {"thread_id": thread}})

    say("one")
    say("one")
    say("two")
    assert len(bound) == 1
    write_skill(tmp_path / "skills", "beta", "Counts pears.\narguments: [place]")
    say("one")
    assert len(bound) == 2  # load_skill has a field more.
