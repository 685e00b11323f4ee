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
        about, body = f"Plans of {user}.", f"SECRET OF {user}\n"
        folder = write_skill(tmp_path / user, "secret-plan", about, body, references__a_md="# A\nx\n")
        publish(store, user_namespace(user), folder)
    return store


CONFIG: Any = {"configurable": {"thread_id": "1"}}


def graph_of(workspace: Path, store: InMemoryStore, replies: list[Any]) -> Any:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    builder = build_graph(settings, model=ScriptedChatModel(replies))
    return builder.compile(checkpointer=InMemorySaver(), store=store)


def say(graph: Any, text: str, user: str | None) -> dict[str, Any]:
    """Run a turn of one thread for a user, or for nobody; return what it came to, and the state."""
    context = None if user is None else Context(user_id=user)
    result = graph.invoke({"messages": [HumanMessage(text)]}, CONFIG, context=context)
    return {**result, "state": graph.get_state(CONFIG).values}


LOAD_AND_READ = [
    calls(call("load_skill", name="secret-plan")),
    calls(call("read_resource", skill="secret-plan", path="references/a.md")),
    "done",
]


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_every_user_has_the_skills_of_their_own_namespace(
    workspace: Path, store: InMemoryStore, user: str
) -> None:
    result = say(graph_of(workspace, store, LOAD_AND_READ), "plan", user)
    assert result["loaded"] == ["secret-plan"]
    entry = result["state"]["skills_loaded"]["secret-plan"]
    assert f"SECRET OF {user}" in entry["instructions"]
    assert entry["source"] == "caller"
    assert any(message.text.startswith("# A") for message in result["messages"] if message.type == "tool")


@pytest.mark.parametrize("user", [None, "mallory", "ali", "*"])
def test_nobody_else_sees_them(workspace: Path, store: InMemoryStore, user: str | None) -> None:
    result = say(graph_of(workspace, store, LOAD_AND_READ), "plan", user)
    assert result["loaded"] == []
    assert result["state"]["catalog"]["total"] == 0
    assert "SECRET" not in str(result["state"])


def test_a_forged_ledger_reaches_nobody_elses_files(workspace: Path, store: InMemoryStore) -> None:
    graph = graph_of(workspace, store, [*LOAD_AND_READ[:1], "loaded", *LOAD_AND_READ[1:]])
    say(graph, "plan", "alice")
    messages = say(graph, "read", "mallory")["messages"]
    assert [message for message in messages if message.name == "read_resource"][-1].status == "error"


def test_a_skill_published_later_is_seen_at_the_next_turn(
    workspace: Path, store: InMemoryStore, tmp_path: Path
) -> None:
    graph = graph_of(workspace, store, ["one", "two"])
    assert say(graph, "hi", "carol")["state"]["catalog"]["total"] == 0
    publish(store, user_namespace("carol"), write_skill(tmp_path / "carol", "late", "Comes late."))
    assert say(graph, "hi", "carol")["state"]["catalog"]["shown"] == 1


def test_a_user_id_that_cannot_be_one_is_refused_clearly(workspace: Path, store: InMemoryStore) -> None:
    with pytest.raises(SkillError, match="user id"):
        say(graph_of(workspace, store, ["one"]), "hi", "  ")
