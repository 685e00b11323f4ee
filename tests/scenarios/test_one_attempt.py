"""An answer about an unknown outcome is for one attempt: after another crash it counts for nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from skills_agent.graph import build_graph
from skills_agent.graph.threads.errors import AnsweredError
from skills_agent.graph.threads.thread import status_of
from skills_agent.graph.threads.threads import Threads
from skills_agent.state.schema import AgentState
from tests.agents import Agent, CutOff, Notes, call, calls
from tests.kit import MakeAgent

APPROVE = {"decisions": [{"type": "approve"}]}
REJECT = {"decisions": [{"type": "reject"}]}


@pytest.fixture
def notes() -> Notes:
    return Notes()


def attempt(interrupt: Any) -> tuple[int, str]:
    (request,) = interrupt.value["action_requests"]
    return request["outcome_unknown"]["attempt"], request["description"]


SCRIPT = [calls(call("note", text="n")), "done"]
ASKS_OF_RUNS: Any = {"require_approval_for": frozenset({"run"})}


@pytest.fixture
def agent(make_agent: MakeAgent, notes: Notes, tmp_path: Path) -> Iterator[Agent]:
    """Return an agent that was cut off in its only call, and asks what became of that."""
    with SqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
        agent = make_agent(SCRIPT, tools=[notes.tool], checkpointer=saver, **ASKS_OF_RUNS)
        notes.crashes = 1
        with pytest.raises(CutOff):
            agent.say("go")
        agent.run(None)
        yield agent


def crash(agent: Agent, notes: Notes, answer: Any) -> None:
    notes.crashes = 1
    with pytest.raises(CutOff):
        agent.run(Command(resume=answer))


def test_the_same_answer_sent_again_and_again_is_one_attempt(agent: Agent, notes: Notes) -> None:
    (first,) = agent.state.interrupts
    answer = {first.id: APPROVE}
    crash(agent, notes, answer)
    for _ in range(3):
        notes.crashes = 1
        with pytest.raises(AnsweredError) as refused:
            agent.run(Command(resume=answer))
        (second,) = agent.state.interrupts
        assert (refused.value.closed, refused.value.open) == ((first.id,), (second.id,))
        assert second.id != first.id
        assert attempt(second)[0] == 2
        assert "attempt 2" in attempt(second)[1]
    assert notes.taken == ["n", "n"]
    notes.crashes = 0
    agent.run(Command(resume={second.id: APPROVE}))
    assert agent.values["answer"] == "done"
    assert notes.taken == ["n", "n", "n"]


def test_a_question_that_was_answered_before_a_crash_is_open_nowhere(agent: Agent, notes: Notes) -> None:
    answer = {agent.state.interrupts[0].id: APPROVE}
    crash(agent, notes, answer)
    assert (agent.state.interrupts, status_of(agent.state)) == ((), "unfinished")
    assert [task.interrupts for task in agent.state.tasks] == [()]
    stream = agent.graph.stream(Command(resume=answer), agent.config, stream_mode="updates")
    (asked,) = next(stream)["__interrupt__"]
    assert attempt(asked)[0] == 2
    with pytest.raises(AnsweredError, match=asked.id):
        list(stream)
    assert agent.run(None)["__interrupt__"] == [asked] == [*agent.state.interrupts]


def test_an_answer_without_an_id_approves_the_first_attempt_alone(agent: Agent, notes: Notes) -> None:
    crash(agent, notes, APPROVE)
    with pytest.raises(AnsweredError):
        agent.run(Command(resume=APPROVE))  # its question was answered
    for _ in range(2):
        with pytest.raises(AnsweredError, match=r"attempt 2.* by the id"):
            agent.run(Command(resume=APPROVE))
    assert notes.taken == ["n", "n"]
    agent.run(Command(resume=REJECT))
    assert (agent.values["answer"], notes.taken) == ("done", ["n", "n"])


def test_an_answer_to_the_tools_own_question_is_another(make_agent: MakeAgent, notes: Notes) -> None:
    notes.question = "sure?"
    agent = make_agent(SCRIPT, tools=[notes.tool], **ASKS_OF_RUNS)
    agent.say("go")
    (own,) = agent.state.interrupts
    crash(agent, notes, {own.id: APPROVE})
    agent.run(Command(resume={own.id: APPROVE}))
    (unknown,) = agent.state.interrupts
    assert unknown.id != own.id
    assert notes.taken == ["n"]
    with pytest.raises(AnsweredError):
        agent.run(Command(resume={own.id: APPROVE}))
    agent.run(Command(resume={unknown.id: APPROVE}))
    (asked_again,) = agent.state.interrupts
    assert asked_again.value == {"ask": "sure?"}
    assert asked_again.id not in {own.id, unknown.id}
    agent.run(Command(resume={asked_again.id: "yes"}))
    assert (notes.taken, agent.values["answer"]) == (["n", "n"], "done")
    assert agent.tool_messages("note")[0].text.endswith("noted n yes")


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("saver", [True, None])
def test_an_agent_inside_another_graph_takes_no_answer_twice(
    make_agent: MakeAgent, notes: Notes, keyed: bool, saver: Any
) -> None:
    """The graph around it takes any answer, and keeps one without an id until its own task has ended."""
    agent = make_agent(SCRIPT, tools=[notes.tool])
    inner = build_graph(agent.settings, model=agent.model, tools=[notes.tool]).compile(checkpointer=saver)
    outer = StateGraph(AgentState)
    outer.add_node("agent", inner)
    outer.add_edge(START, "agent")
    graph = outer.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}

    def question() -> Any:
        (found,) = graph.get_state(config).interrupts
        return found

    def send(of: Any, answer: Any = APPROVE) -> None:
        graph.invoke(Command(resume={of.id: answer} if keyed else answer), config)

    graph.invoke({"messages": [HumanMessage("go")]}, config)
    approval = question()
    notes.crashes = 1
    with pytest.raises(CutOff):
        send(approval)
    graph.invoke(None, config)
    first = question()
    assert (attempt(first)[0], notes.taken) == (1, ["n"])
    notes.crashes = 1
    with pytest.raises(CutOff):
        send(first)
    assert notes.taken == ["n", "n"]
    send(first)  # old
    second = question()
    assert (attempt(second)[0], notes.taken) == (2, ["n", "n"])
    assert second.id != first.id
    if keyed:
        send(first)  # older
        assert (question().id, notes.taken) == (second.id, ["n", "n"])
    send(second, REJECT)
    assert notes.taken == ["n", "n"]
    assert graph.get_state(config).next == ()


def test_a_fork_asks_for_itself(agent: Agent, notes: Notes) -> None:
    (first,) = agent.state.interrupts
    threads = Threads(agent.graph)
    assert threads.read("thread").summary.status == "waiting"
    crash(agent, notes, {first.id: APPROVE})
    assert threads.read("thread").summary.status == "unfinished"
    fork = threads.fork("thread", threads.steps("thread")[-1].number, new="copy")
    with pytest.raises(AnsweredError):
        agent.graph.invoke(Command(resume={first.id: APPROVE}), {"configurable": {"thread_id": fork.thread}})
    assert notes.taken == ["n", "n"]


def test_each_of_several_open_questions_has_its_own_attempts(make_agent: MakeAgent) -> None:
    tools = [Notes(name) for name in ("one", "two")]
    script = [calls(call("one", text="1"), call("two", text="2")), "done"]
    agent = make_agent(script, tools=[each.tool for each in tools], **ASKS_OF_RUNS)
    one, two = tools
    one.crashes = two.crashes = 1
    with pytest.raises(CutOff):
        agent.say("go")
    while one.crashes or two.crashes:
        with pytest.raises(CutOff):
            agent.run(None)
    agent.run(None)

    def asked() -> dict[str, Any]:
        return {each.value["action_requests"][0]["name"]: each for each in agent.state.interrupts}

    before = asked()
    assert set(before) == {"one", "two"}
    crash(agent, one, {before["one"].id: APPROVE})
    assert asyncio.run(agent.graph.aget_state(agent.config)).interrupts == (before["two"],)
    with pytest.raises(AnsweredError):
        agent.run(Command(resume={each.id: APPROVE for each in before.values()}))
    after = asked()
    assert {name: attempt(each)[0] for name, each in after.items()} == {"one": 2, "two": 1}
    assert after["one"].id != before["one"].id
    assert after["two"].id == before["two"].id
    assert (one.taken, two.taken) == (["1", "1"], ["2"])
    agent.run(Command(resume={each.id: APPROVE for each in after.values()}))
    assert (one.taken, two.taken, agent.values["answer"]) == (["1"] * 3, ["2"] * 2, "done")
