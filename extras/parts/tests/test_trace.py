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
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.parts import Gate, Skills, Trace, TraceHandler
from tests import spans
from tests.agents import call, calls

THREAD: Any = {"configurable": {"thread_id": "1"}}
SCRIPT = (
    calls(call("load_skill", name="notes")),
    calls(call("read_resource", skill="notes", path="references/a.md"), call("ring", times=2)),
    "Done.",
)


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return spans.exporter()


@pytest.fixture(autouse=True)
def empty(exporter: InMemorySpanExporter) -> Iterator[None]:
    exporter.clear()
    yield
    exporter.clear()


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    (folder / "notes" / "references").mkdir(parents=True)
    (folder / "notes" / "SKILL.md").write_text("---\nname: notes\ndescription: Notes.\n---\nRead a.md.\n")
    (folder / "notes" / "references" / "a.md").write_text("A.\n")
    return folder


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
    settings = Settings(
        workspace=skills.parent, skills_dirs=(skills,), require_approval_for=frozenset(), audit="off"
    )
    graph = build_graph(settings, model=ScriptedChatModel(script=SCRIPT), tools=[ring])
    return graph.compile(checkpointer=InMemorySaver()).with_config(callbacks=[TraceHandler()])


def theirs(skills: Path, ring: BaseTool) -> Any:
    parts: list[Any] = [Trace(), Skills(skills), Gate(require_approval_for=frozenset())]
    model = ScriptedChatModel(script=SCRIPT)
    return create_agent(model, [ring], middleware=parts, checkpointer=InMemorySaver())


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


@pytest.mark.parametrize("make", [ours, theirs])
def test_spans_name_the_skill_its_version_and_by_whose_word(
    make: Any, skills: Path, ring: BaseTool, exporter: InMemorySpanExporter
) -> None:
    state = make(skills, ring).invoke({"messages": [("user", "Note it.")]}, THREAD)
    found = by_name(exporter)
    digest = make is theirs and state["skills_loaded"]["notes"]["digest"]
    loaded = dict(found["execute_tool load_skill notes"].attributes or {})
    read = dict(found["execute_tool read_resource notes references/a.md"].attributes or {})
    rang = dict(found["execute_tool ring"].attributes or {})
    for attributes in (loaded, read):
        assert attributes["gen_ai.operation.name"] == "execute_tool"
        assert attributes["gen_ai.skill.name"] == "notes"
        assert attributes["gen_ai.skill.source.uri"] == (skills / "notes" / "SKILL.md").as_uri()
        assert attributes["gen_ai.skill.version"] == digest or make is ours
        assert len(str(attributes["gen_ai.skill.version"])) == 64
    assert loaded["skills_agent.skill.asked_by"] == "model"
    assert read["gen_ai.skill.resource.name"] == "references/a.md"
    assert (rang["skills_agent.verdict.decision"], rang["skills_agent.verdict.by"]) == ("allow", "policy")
    assert sum(span.name.startswith("chat ") for span in exporter.get_finished_spans()) == len(SCRIPT)


@pytest.mark.parametrize("make", [ours, theirs])
async def test_an_event_loop_has_the_same_spans(
    make: Any, skills: Path, ring: BaseTool, exporter: InMemorySpanExporter
) -> None:
    await make(skills, ring).ainvoke({"messages": [("user", "Note it.")]}, THREAD)
    assert {"execute_tool load_skill notes", "execute_tool ring"} <= by_name(exporter).keys()


def test_a_question_is_no_error_and_a_tool_that_raises_is_one(
    ring: BaseTool, exporter: InMemorySpanExporter
) -> None:
    model = ScriptedChatModel(script=[calls(call("ring", times=3))])
    failing: Any = create_agent(model, [ring], middleware=[Trace()])
    with pytest.raises(ValueError, match="it broke"):
        failing.invoke({"messages": [("user", "Ring.")]})
    span = by_name(exporter)["execute_tool ring"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "ValueError"
    exporter.clear()
    asking: Any = create_agent(
        ScriptedChatModel(script=[calls(call("ring", times=1))]),
        [ring],
        middleware=[Trace(), Gate()],
        checkpointer=InMemorySaver(),
    )
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
