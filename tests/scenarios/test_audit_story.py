"""The record of a run that was cut off in an effect, and of what was changed from outside, is one story."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.types import Command

from skills_agent.graph.audit.log import AuditError, RunLog, without_repetitions
from skills_agent.graph.cli.record import RunRecord
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.threads.threads import Threads
from skills_agent.state.context import Context
from tests.agents import Agent, CutOff, Notes, call, calls, write_skill
from tests.kit import MakeAgent


@pytest.fixture
def effect() -> Notes:
    return Notes()


@pytest.fixture
def cut_off(make_agent: MakeAgent, effect: Notes) -> Agent:
    """Return an agent whose run was cut off in its effect, and asks what becomes of it."""
    replies = [calls(call("note", text="n")), "done"]
    agent = make_agent(replies, tools=[effect.tool], require_approval_for=frozenset())
    effect.crashes = 1
    with pytest.raises(CutOff):
        agent.say("go")
    agent.run(None)
    return agent


def told(workspace: Path) -> list[dict[str, Any]]:
    """Return the events of the thread, after a check that its chain is whole."""
    log, name = RunLog(workspace / ".agent" / "runs"), folder_name("thread")
    assert log.verify(name).faults == []
    return list(without_repetitions(map(json.loads, log.lines(name))))


def of_act(workspace: Path) -> list[tuple[str, bool]]:
    return [
        (each["type"], bool(each.get("repeated")))
        for each in told(workspace)
        if each["node"] == "act" and each["type"] != "run_resumed"
    ]


def answer(agent: Agent, decision: dict[str, Any], user: str = "ann") -> None:
    (question,) = agent.state.interrupts
    agent.run(Command(resume={question.id: {"decisions": [decision]}}), Context(user_id=user))


def test_who_had_an_unknown_call_run_again_is_told_before_it_starts(cut_off: Agent, workspace: Path) -> None:
    before = [("call_started", False), ("approval_asked", False)]
    assert of_act(workspace) == before
    answer(cut_off, {"type": "approve"})
    assert of_act(workspace) == [
        *before,
        ("approval_answered", False),
        ("call_started", True),
        ("call_ended", False),
    ]
    asked, answered = (
        next(each for each in told(workspace) if each["type"] == kind)
        for kind in ("approval_asked", "approval_answered")
    )
    assert (answered["answer"], answered["decision"], answered["user"]) == ("approve", "allow", "ann")
    assert (answered["call_id"], answered["args"]) == (asked["call_id"], {"text": "n"})
    assert answered["reason"] == f"run again: {asked['question']}"
    assert answered["digest"] == asked["digest"] != ""


def test_who_left_an_unknown_call_is_told_and_nothing_starts(cut_off: Agent, workspace: Path) -> None:
    answer(cut_off, {"type": "reject", "message": "I looked"})
    assert of_act(workspace) == [
        *[("call_started", False), ("approval_asked", False), ("approval_answered", False)],
        ("call_ended", False),
    ]
    *_, answered, ended = (each for each in told(workspace) if each["node"] == "act")
    assert (answered["answer"], answered["decision"], answered["message"]) == ("reject", "deny", "I looked")
    assert ended["status"] == "error"
    assert "Outcome unknown" in ended["error"]


def test_the_answer_about_the_next_attempt_is_another_one(
    cut_off: Agent, effect: Notes, workspace: Path
) -> None:
    effect.crashes = 1
    with pytest.raises(CutOff):
        answer(cut_off, {"type": "approve"})
    assert RunRecord("thread.1", told(workspace), is_last=True).outcome == "unfinished"
    cut_off.run(None)
    assert RunRecord("thread.1", told(workspace), is_last=True).outcome == "waiting"
    answer(cut_off, {"type": "approve"})
    assert of_act(workspace) == [
        *[("call_started", False), ("approval_asked", False), ("approval_answered", False)],
        *[("call_started", True), ("approval_asked", True), ("approval_answered", True)],
        *[("call_started", True), ("call_ended", False)],
    ]


def test_a_call_whose_earlier_result_is_taken_does_not_start(
    make_agent: MakeAgent, effect: Notes, workspace: Path
) -> None:
    replies = [calls(call("note", text="n")), "done"]
    agent = make_agent(replies, tools=[effect.tool], require_approval_for=frozenset())
    agent.say("go")
    history = list(agent.graph.get_state_history(agent.config))
    (before,) = [snapshot for snapshot in history if snapshot.next == ("act",)]
    agent.graph.invoke(None, before.config)
    assert [kind for kind, _ in of_act(workspace)] == ["call_started", "call_ended", "call_ended"]
    assert [each for each in told(workspace) if each["type"] == "call_ended"][-1]["reused"]


def test_a_call_that_could_not_be_recorded_is_not_unknown_afterwards(
    make_agent: MakeAgent, effect: Notes, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`require`: the run stops before the journal takes the call for one that was started."""
    replies = [calls(call("note", text="n")), "done"]
    agent = make_agent(replies, tools=[effect.tool], require_approval_for=frozenset(), audit="require")
    runs = workspace / ".agent" / "runs"
    asked: Any = {"messages": [HumanMessage("go")]}
    steps = agent.graph.stream(asked, agent.config, stream_mode="updates", durability="sync")
    next(step for step in steps if "gate" in step)
    runs.rename(runs.with_name("moved"))
    runs.write_text("")
    with pytest.raises(AuditError):
        next(steps)
    assert not [each.message for each in caplog.records if "runs go on" in each.message]
    runs.unlink()
    runs.with_name("moved").rename(runs)
    assert agent.run(None)["answer"] == "done"
    assert agent.tool_messages("note")[0].text == "noted n"


@pytest.fixture
def granted(make_agent: MakeAgent, workspace: Path, skills_dir: Path) -> Agent:
    """Return an agent that was granted a skill, and is done."""
    write_skill(skills_dir, "alpha", "Runs.", scripts__run_py="print('ran')")
    run = call("run_script", skill="alpha", path="scripts/run.py")
    agent = make_agent([calls(call("load_skill", name="alpha")), calls(run), "done", "again"], sandbox="off")
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})
    return agent


async def test_what_is_revoked_is_told(granted: Agent, workspace: Path) -> None:
    (name,) = granted.values["grants"]
    Threads(granted.graph).revoke("thread", name)
    *_, event = told(workspace)
    assert (event["type"], event["call_id"], event["tool"], event["scope"]) == (
        "grant_revoked", name, "run_script", "skill",
    )  # fmt: skip
    newest = granted.state.config["configurable"]["checkpoint_id"]
    assert (event["run"], event["task"]) == ("thread.1", newest)
    another = {"other": {**granted.values["grants"][name], "id": "other"}}
    granted.graph.update_beside(granted.config, {"grants": another})
    await granted.graph.aupdate_state(granted.config, {"messages": [HumanMessage("x")]}, as_node="answer")
    assert granted.values["grants"].keys() == {name, "other"}
    granted.say("again")
    events = [event for step in Threads(granted.graph).steps("thread") for event in step.events]
    assert [each["call_id"] for each in events if each["type"] == "grant_revoked"] == [name, "other"]


async def test_what_is_changed_with_update_state_is_told_each_time(granted: Agent, workspace: Path) -> None:
    update = {"messages": [HumanMessage("more")], "skills": ["alpha"]}
    for _ in range(2):
        await granted.graph.aupdate_state(granted.config, update, as_node="answer")
    one, two = told(workspace)[-2:]
    for event in (one, two):
        assert (event["type"], event["as_node"]) == ("state_updated", "answer")
        assert event["channels"] == ["messages", "skills"]
    assert one["task"] != two["task"]
    granted.graph.update_state(granted.config, None, as_node="answer")
    assert told(workspace)[-1] == two


async def test_the_end_of_a_call_whose_run_was_cancelled_is_told_once(
    make_agent: MakeAgent, workspace: Path
) -> None:
    """By the run that goes on: the cancelled one kept nothing of its step but the entry of the journal."""
    began = asyncio.Event()

    @tool
    async def send(text: str) -> str:
        """Send something."""
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return f"{text} was not sent"
        return "never"

    send.metadata = {"risk": "write"}
    replies = [calls(call("send", text="n")), "done"]
    agent = make_agent(replies, tools=[send], require_approval_for=frozenset())
    run = asyncio.ensure_future(agent.graph.ainvoke({"messages": [HumanMessage("go")]}, agent.config))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert of_act(workspace) == [("call_started", False)]
    assert (await agent.graph.ainvoke(None, agent.config))["answer"] == "done"
    assert of_act(workspace) == [("call_started", False), ("call_ended", False)]
