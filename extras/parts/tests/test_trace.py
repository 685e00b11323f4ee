"""Trace: the spans of an agent of `create_agent`, and those of our own graph."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.parts import Gate, Skills, Trace, TraceHandler
from tests import spans
from tests.agents import FREE, call, calls, write_skill

THREAD: Any = {"configurable": {"thread_id": "1"}}
SCRIPT = (
    calls(call("load_skill", name="notes")),
    calls(call("read_resource", skill="notes", path="references/a.md"), call("ring", times=2)),
    "Done.",
)


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = spans.exporter()
    exporter.clear()
    yield exporter
    exporter.clear()


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    return write_skill(tmp_path / "skills", "notes", "Notes.", "Read a.md.\n", references__a_md="A.\n").parent


@pytest.fixture
def ring() -> BaseTool:
    @tool
    def ring(times: int) -> str:
        """Ring a bell."""
        if times > 2:
            raise ValueError("it broke")
        return "rang"

    return ring


def ours(skills: Path, ring: BaseTool) -> Any:
    settings = Settings(workspace=skills.parent, skills_dirs=(skills,), audit="off", **FREE)
    graph = build_graph(settings, model=ScriptedChatModel(script=SCRIPT), tools=[ring])
    return graph.compile(checkpointer=InMemorySaver()).with_config(callbacks=[TraceHandler()])


def theirs(skills: Path, ring: BaseTool) -> Any:
    parts: list[Any] = [Trace(), Skills(skills), Gate(**FREE)]
    model = ScriptedChatModel(script=SCRIPT)
    return create_agent(model, [ring], middleware=parts, checkpointer=InMemorySaver())


@pytest.mark.parametrize("make", [ours, theirs])
@pytest.mark.parametrize("is_async", [False, True], ids=["invoke", "ainvoke"])
async def test_spans_name_the_skill_its_version_and_by_whose_word(
    make: Any, skills: Path, ring: BaseTool, exporter: InMemorySpanExporter, *, is_async: bool
) -> None:
    agent, said = make(skills, ring), {"messages": [("user", "Note it.")]}
    state = await agent.ainvoke(said, THREAD) if is_async else agent.invoke(said, THREAD)
    found = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    loaded = found["execute_tool load_skill notes"]
    read = found["execute_tool read_resource notes references/a.md"]
    rang = found["execute_tool ring"]
    for attributes in (loaded, read):
        assert attributes["gen_ai.operation.name"] == "execute_tool"
        assert attributes["gen_ai.skill.name"] == "notes"
        assert attributes["gen_ai.skill.source.uri"] == (skills / "notes" / "SKILL.md").as_uri()
        assert make is ours or attributes["gen_ai.skill.version"] == state["skills_loaded"]["notes"]["digest"]
        assert len(str(attributes["gen_ai.skill.version"])) == 64
    assert loaded["skills_agent.skill.asked_by"] == "model"
    assert read["gen_ai.skill.resource.name"] == "references/a.md"
    assert (rang["skills_agent.verdict.decision"], rang["skills_agent.verdict.by"]) == ("allow", "policy")
    assert sum(span.name.startswith("chat ") for span in exporter.get_finished_spans()) == len(SCRIPT)


def test_a_question_is_no_error_and_a_tool_that_raises_is_one(
    ring: BaseTool, exporter: InMemorySpanExporter
) -> None:
    model = ScriptedChatModel(script=[calls(call("ring", times=3))])
    failing: Any = create_agent(model, [ring], middleware=[Trace()])
    with pytest.raises(ValueError, match="it broke"):
        failing.invoke({"messages": [("user", "Ring.")]})
    (span,) = [each for each in exporter.get_finished_spans() if each.name == "execute_tool ring"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "ValueError"
    exporter.clear()
    model = ScriptedChatModel(script=[calls(call("ring", times=1))])
    asking: Any = create_agent(model, [ring], middleware=[Trace(), Gate()], checkpointer=InMemorySaver())
    assert "__interrupt__" in asking.invoke({"messages": [("user", "Ring.")]}, THREAD)
    assert all(span.status.status_code is trace.StatusCode.UNSET for span in exporter.get_finished_spans())


def test_the_runs_of_langsmith_have_the_facts(skills: Path, ring: BaseTool) -> None:
    with collect_runs() as collected:
        ours(skills, ring).invoke({"messages": [("user", "Note it.")]}, THREAD)
    runs = [run for root in collected.traced_runs for run in descendants(root)]
    (told,) = (run.extra["metadata"] for run in runs if run.name == "read_resource")
    assert (told["verdict"], told["verdict_by"], told["skill_name"]) == ("allow", "policy", "notes")


def descendants(run: Any) -> Iterator[Any]:
    yield run
    for child in run.child_runs:
        yield from descendants(child)
