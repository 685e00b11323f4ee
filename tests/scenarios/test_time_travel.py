"""Going on from an earlier step with LangGraph's own calls, in the same thread."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from skills_agent.graph.threads.database import CompressedSerializer
from skills_agent.graph.threads.errors import AnsweredError
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent


@pytest.fixture
def agent(make_agent: MakeAgent, skills_dir: Path, tmp_path: Path) -> Iterator[Agent]:
    """Run two turns; the first loads a skill and has a written file approved."""
    write_skill(skills_dir, "alpha", "Writes.", "ALPHA TEXT\n")
    plan = call("update_plan", goal="Write", steps=[{"id": "1", "title": "Write", "status": "in_progress"}])
    write = calls(call("write_file", path="out.txt", content="x"))
    load = calls(call("load_skill", name="alpha"), plan)
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        saver.serde = CompressedSerializer()
        agent = make_agent([load, write, "written", "welcome", "another"], checkpointer=saver)
        agent.say("Write it")
        agent.answer({"type": "approve"})
        agent.say("Thanks")
        yield agent


def history(agent: Agent) -> list[Any]:
    """Return the snapshots of the thread, oldest first."""
    return list(agent.graph.get_state_history(agent.config))[::-1]


def before(agent: Agent, node: str) -> Any:
    """Return the first snapshot after which a node runs."""
    return next(snapshot for snapshot in history(agent) if node in snapshot.next)


def test_every_step_of_the_history_has_its_own_ledger_grants_and_usage(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """Read strictly: a type that is not allowed, of ours or of LangGraph, would be told in the log."""
    steps = [each.values for each in history(agent)]
    loaded = [sorted(each.get("skills_loaded") or {}) for each in steps]
    granted = [len(each.get("grants") or {}) for each in steps]
    spent = [(each.get("usage") or {}).get("thread", {}).get("model_calls", 0) for each in steps]
    assert (loaded[0], loaded[-1], loaded == sorted(loaded)) == ([], ["alpha"], True)
    assert (granted[0], granted[-1]) == (0, 1)
    assert (spent[0], spent[-1], spent == sorted(spent)) == (0, 4, True)
    for when in ("setup", "call"):
        assert [each for each in caplog.get_records(when) if each.name.startswith("langgraph")] == []


def test_a_run_from_an_old_checkpoint_asks_again_and_leaves_the_old_branch(agent: Agent) -> None:
    step = before(agent, "approve")
    newest = agent.state
    again = agent.graph.invoke(None, step.config)
    assert [each.value["action_requests"][0]["name"] for each in again["__interrupt__"]] == ["write_file"]
    assert agent.values["usage"] == step.values["usage"]
    assert agent.values["grants"] == {}
    result = agent.answer({"type": "reject"})
    assert result["answer"] == "written"
    assert len(agent.tool_messages("write_file")) == 1
    assert agent.graph.get_state(newest.config).values["messages"] == newest.values["messages"]


REJECT, APPROVE = ({"decisions": [{"type": each}]} for each in ("reject", "approve"))


def test_an_answer_at_a_step_that_was_answered_is_refused_and_not_dropped(agent: Agent) -> None:
    """LangGraph goes on with what came of the first one: a rejected call would have its result."""
    step = before(agent, "approve")
    (question,) = step.interrupts
    newest = agent.state
    for answer in (REJECT, {question.id: REJECT}):
        with pytest.raises(AnsweredError):
            agent.graph.invoke(Command(resume=answer), step.config)
    assert agent.state.config == newest.config
    fork = agent.graph.update_state(step.config, None)
    agent.graph.invoke(None, fork)
    agent.graph.invoke(Command(resume=REJECT), fork)
    (told,) = agent.tool_messages("write_file")
    assert told.status == "error"
    assert "before the conversation went back to this step. A person rejected it afterwards." in told.text


async def test_it_is_so_for_ainvoke(make_agent: MakeAgent) -> None:
    agent = make_agent([calls(call("write_file", path="out.txt", content="x")), "written", "another"])
    await agent.graph.ainvoke({"messages": [HumanMessage("Write it")]}, agent.config)
    step = await agent.graph.aget_state(agent.config)
    await agent.graph.ainvoke(Command(resume=APPROVE), step.config)  # the newest step, by its name
    with pytest.raises(AnsweredError):
        await agent.graph.ainvoke(Command(resume=REJECT), step.config)


def test_a_result_of_before_the_way_back_is_told_as_one(agent: Agent, workspace: Path) -> None:
    step = before(agent, "approve")
    for _ in range(2):
        (workspace / "out.txt").unlink(missing_ok=True)
        agent.graph.invoke(None, step.config)
        agent.answer({"type": "approve"})
        (told,) = agent.tool_messages("write_file")
        assert told.text.count("It was not run again") == 1
        assert not (workspace / "out.txt").exists()


def test_a_message_that_somebody_else_wrote_becomes_the_answer_without_a_model_call(agent: Agent) -> None:
    agent.graph.update_state(agent.config, {"messages": [AIMessage("Rather this.")]}, as_node="decide")
    assert agent.state.next == ("answer",)
    result = agent.graph.invoke(None, agent.config)
    assert (result["answer"], agent.state.next) == ("Rather this.", ())
    assert result["usage"]["thread"]["model_calls"] == 4
