"""Skills that live in LangGraph's store, one namespace a user: the way they live on a deployment."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from skills_agent.graph import Context, Settings, build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.skills.errors import SkillError
from skills_agent.skills.sources.namespaces import user_namespace
from skills_agent.sources.store import publish
from tests.agents import call, calls, write_skill


@pytest.fixture
def store(workspace: Path, tmp_path: Path) -> InMemoryStore:
    store = InMemoryStore()
    for user in ("alice", "bob"):
        folder = write_skill(
            tmp_path / user,
            "secret-plan",
            f"Plans of {user}.",
            f"SECRET OF {user}\n",
            references__a_md="# A\nx\n",
        )
        publish(store, user_namespace(user), folder)
    return store


def graph_of(workspace: Path, store: InMemoryStore, replies: list[Any]) -> Any:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    builder = build_graph(settings, model=ScriptedChatModel(replies))
    return builder.compile(checkpointer=InMemorySaver(), store=store)


LOAD_AND_READ = [
    calls(call("load_skill", name="secret-plan")),
    calls(call("read_resource", skill="secret-plan", path="references/a.md")),
    "done",
]


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_every_user_has_the_skills_of_their_own_namespace(
    workspace: Path, store: InMemoryStore, user: str
) -> None:
    graph = graph_of(workspace, store, LOAD_AND_READ)
    config = {"configurable": {"thread_id": user}}
    result = graph.invoke({"messages": [HumanMessage("plan")]}, config, context=Context(user_id=user))
    assert result["loaded"] == ["secret-plan"]
    entry = graph.get_state(config).values["skills_loaded"]["secret-plan"]
    assert f"SECRET OF {user}" in entry["instructions"]
    assert entry["source"] == "caller"
    assert any(message.text.startswith("# A") for message in result["messages"] if message.type == "tool")


@pytest.mark.parametrize(
    "context", [None, Context(user_id="mallory"), Context(user_id="ali"), Context(user_id="*")]
)
def test_nobody_else_sees_them(workspace: Path, store: InMemoryStore, context: Context | None) -> None:
    graph = graph_of(workspace, store, LOAD_AND_READ)
    config = {"configurable": {"thread_id": "1"}}
    result = graph.invoke({"messages": [HumanMessage("plan")]}, config, context=context)
    assert result["loaded"] == []
    assert graph.get_state(config).values["catalog"]["total"] == 0
    assert "SECRET" not in str(graph.get_state(config).values)


def test_a_forged_ledger_reaches_nobody_elses_files(workspace: Path, store: InMemoryStore) -> None:
    graph = graph_of(workspace, store, [*LOAD_AND_READ[:1], "loaded", *LOAD_AND_READ[1:]])
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [HumanMessage("plan")]}, config, context=Context(user_id="alice"))
    result = graph.invoke({"messages": [HumanMessage("read")]}, config, context=Context(user_id="mallory"))
    answered = [message for message in result["messages"] if message.name == "read_resource"]
    assert answered[-1].status == "error"


def test_a_skill_published_later_is_seen_at_the_next_turn(
    workspace: Path, store: InMemoryStore, tmp_path: Path
) -> None:
    graph = graph_of(workspace, store, ["one", "two"])
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [HumanMessage("hi")]}, config, context=Context(user_id="carol"))
    assert graph.get_state(config).values["catalog"]["total"] == 0
    publish(store, user_namespace("carol"), write_skill(tmp_path / "carol", "late", "Comes late."))
    graph.invoke({"messages": [HumanMessage("hi")]}, config, context=Context(user_id="carol"))
    assert graph.get_state(config).values["catalog"]["shown"] == 1


def test_a_user_id_that_cannot_be_one_is_refused_clearly(workspace: Path, store: InMemoryStore) -> None:
    graph = graph_of(workspace, store, ["one"])
    config = {"configurable": {"thread_id": "1"}}
    with pytest.raises(SkillError, match="user id"):
        graph.invoke({"messages": [HumanMessage("hi")]}, config, context=Context(user_id="  "))
