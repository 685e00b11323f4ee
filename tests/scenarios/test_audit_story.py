"""The record of a run that was cut off in an effect, and of what was changed from outside, is one story."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from skills_agent.graph.audit.log import AuditError, without_repetitions
from skills_agent.graph.cli.record import RunRecord
from skills_agent.graph.threads.threads import Threads
from skills_agent.state.context import Context
from tests.agents import FREE, Agent, CutOff, Notes, call, calls, write_skill
from tests.kit import MakeAgent

NOTE = [calls(call("note", text="n")), "done"]
GO: Any = {"messages": [HumanMessage("go")]}
APPROVE: dict[str, Any] = {"type": "approve"}


@pytest.fixture
def effect() -> Notes:
    return Notes()


@pytest.fixture
def cut_off(make_agent: MakeAgent, effect: Notes) -> Agent:
    """Return an agent whose run was cut off in its effect, and asks what becomes of it."""
    agent = make_agent(NOTE, tools=[effect.tool], **FREE)
    effect.crashes = 1
    with pytest.raises(CutOff):
        agent.say("go")
    agent.run(None)
    return agent


def told(agent: Agent) -> list[dict[str, Any]]:
    return list(without_repetitions(agent.events()))


def of_act(agent: Agent) -> list[str]:
    """Return what is told of the effect, with a mark at what is told of a further attempt."""
    events = [each for each in told(agent) if each["node"] == "act" and each["type"] != "run_resumed"]
    return [each["type"] + "+" * bool(each.get("repeated")) for each in events]


def outcome(agent: Agent) -> str:
    return RunRecord("thread.1", told(agent), is_last=True).outcome


def answer(agent: Agent, decision: dict[str, Any]) -> None:
    (question,) = agent.state.interrupts
    agent.run(Command(resume={question.id: {"decisions": [decision]}}), Context(user_id="ann"))


def test_who_left_an_unknown_call_is_told_and_nothing_starts(cut_off: Agent) -> None:
    answer(cut_off, {"type": "reject", "message": "I looked"})
    assert of_act(cut_off) == ["call_started", "approval_asked", "approval_answered", "call_ended"]
    *_, answered, ended = (each for each in told(cut_off) if each["node"] == "act")
    assert (answered["answer"], answered["decision"], answered["message"]) == ("reject", "deny", "I looked")
    assert ended["status"] == "error"
    assert "Outcome unknown" in ended["error"]


def test_who_had_an_unknown_call_run_again_is_told_each_time(cut_off: Agent, effect: Notes) -> None:
    effect.crashes = 1
    with pytest.raises(CutOff):
        answer(cut_off, APPROVE)
    (asked,), (answered,) = cut_off.events("approval_asked"), cut_off.events("approval_answered")
    assert (answered["answer"], answered["decision"], answered["user"]) == ("approve", "allow", "ann")
    assert (answered["call_id"], answered["args"]) == (asked["call_id"], {"text": "n"})
    assert answered["reason"] == f"run again: {asked['question']}"
    assert answered["digest"] == asked["digest"] != ""
    assert outcome(cut_off) == "unfinished"
    cut_off.run(None)
    assert outcome(cut_off) == "waiting"
    answer(cut_off, APPROVE)
    assert of_act(cut_off) == [
        *("call_started", "approval_asked", "approval_answered", "call_started+"),
        *("approval_asked+", "approval_answered+", "call_started+", "call_ended"),
    ]


def test_a_call_that_could_not_be_recorded_is_not_unknown_afterwards(
    make_agent: MakeAgent, effect: Notes, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`require`: the run stops before the journal takes the call for one that was started."""
    agent = make_agent(NOTE, tools=[effect.tool], audit="require", **FREE)
    runs = workspace / ".agent" / "runs"
    steps = agent.graph.stream(GO, agent.config, stream_mode="updates", durability="sync")
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
def granted(make_agent: MakeAgent, skills_dir: Path) -> Agent:
    """Return an agent that was granted a skill, and is done."""
    write_skill(skills_dir, "alpha", "Runs.", scripts__run_py="print('ran')")
    run = call("run_script", skill="alpha", path="scripts/run.py")
    agent = make_agent([calls(call("load_skill", name="alpha")), calls(run), "done", "again"], sandbox="off")
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "skill"}})
    return agent


async def test_what_is_revoked_is_told(granted: Agent) -> None:
    (name,) = granted.values["grants"]
    Threads(granted.graph).revoke("thread", name)
    event = told(granted)[-1]
    newest = granted.state.config["configurable"]["checkpoint_id"]
    facts = {"type": "grant_revoked", "call_id": name, "tool": "run_script", "scope": "skill"}
    assert event.items() >= {**facts, "run": "thread.1", "task": newest}.items()
    another = {"other": {**granted.values["grants"][name], "id": "other"}}
    granted.graph.update_beside(granted.config, {"grants": another})
    await granted.graph.aupdate_state(granted.config, {"messages": [HumanMessage("x")]}, as_node="answer")
    assert granted.values["grants"].keys() == {name, "other"}
    granted.say("again")
    events = [event for step in Threads(granted.graph).steps("thread") for event in step.events]
    assert [each["call_id"] for each in events if each["type"] == "grant_revoked"] == [name, "other"]


async def test_what_is_changed_with_update_state_is_told_each_time(granted: Agent) -> None:
    update = {"messages": [HumanMessage("more")], "skills": ["alpha"]}
    for _ in range(2):
        await granted.graph.aupdate_state(granted.config, update, as_node="answer")
    granted.graph.update_state(granted.config, None, as_node="answer")
    one, two = told(granted)[-2:]
    for event in (one, two):
        assert (event["type"], event["as_node"]) == ("state_updated", "answer")
        assert event["channels"] == ["messages", "skills"]
    assert one["task"] != two["task"]
