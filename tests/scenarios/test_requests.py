"""A message that is sent again with its id is the same turn, not a second one."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from skills_agent.graph.threads.errors import ThreadError
from skills_agent.graph.threads.threads import Threads
from tests.agents import Agent, CutOff, call, calls
from tests.kit import MakeAgent

WRITE = call("write_file", path="a", content="b")


class Replies:
    """A script that counts how often the model is asked, and can end the process instead."""

    def __init__(self, *replies: Any) -> None:
        self.asked = 0
        self.cut_off = False
        self.script = [partial(self._answer, reply) for reply in replies]

    def _answer(self, reply: Any, _: Any) -> Any:
        self.asked += 1
        if self.cut_off:
            self.cut_off = False
            raise CutOff
        return reply


def ask(agent: Agent, text: str, request: str) -> dict[str, Any]:
    return agent.run({"messages": [HumanMessage(text, id=request)]})


def said(agent: Agent) -> list[str]:
    return [message.text for message in agent.transcript if isinstance(message, HumanMessage)]


MESSAGE = HumanMessage("q1", id="r1")
OF_A_SDK = {"type": "human", "content": "q1", "id": "r1"}
OF_A_UI = {"type": "tool", "content": "Successfully handled tool call.", "tool_call_id": "x", "id": "t"}
FORMS: list[Any] = [
    MESSAGE,
    [MESSAGE],
    [{"role": "user", "content": "q1", "id": "r1"}],
    [OF_A_SDK],
    [OF_A_SDK, OF_A_UI],  # with what a chat UI adds
]
STREAMS: list[Any] = [
    {"stream_mode": "values"},
    {"stream_mode": ["values", "updates"]},
    {"stream_mode": "values", "subgraphs": True},
    {"stream_mode": ["values"], "subgraphs": True},
    {"stream_mode": "values", "version": "v2"},
    {"stream_mode": "values", "output_keys": "answer"},
    {"stream_mode": "updates"},
    {},
]


def test_an_answered_request_gives_its_answer_without_a_model_call(make_agent: MakeAgent) -> None:
    replies = Replies("one", "two")
    agent = make_agent(replies.script)
    first = ask(agent, "q1", "r1")
    before = agent.state.config
    for form in FORMS:
        assert agent.run({"messages": form}) == first
    asked: Any = {"messages": [MESSAGE]}
    assert asyncio.run(agent.graph.ainvoke(asked, agent.config)) == first
    for options in STREAMS:
        at_rest = list(agent.graph.stream(None, agent.config, **options))
        assert list(agent.graph.stream(asked, agent.config, **options)) == at_rest
    assert (replies.asked, agent.state.config) == (1, before)


def test_an_earlier_request_gives_its_answer_beside_an_open_question(make_agent: MakeAgent) -> None:
    replies = Replies("one", calls(WRITE), "done")
    agent = make_agent(replies.script)
    ask(agent, "q1", "r1")
    ask(agent, "q2", "r2")
    (question,) = agent.state.interrupts
    again = ask(agent, "q1", "r1")
    assert (again["answer"], [each.text for each in again["messages"]]) == ("one", ["q1", "one"])
    assert "__interrupt__" not in again
    assert agent.state.interrupts == (question,)
    assert (replies.asked, said(agent)) == (2, ["q1", "q2"])


def test_a_waiting_request_gives_the_same_question(make_agent: MakeAgent, workspace: Path) -> None:
    replies = Replies(calls(WRITE), "done")
    agent = make_agent(replies.script)
    first = ask(agent, "q", "r")
    again = ask(agent, "q", "r")
    assert again["__interrupt__"] == first["__interrupt__"]
    assert (replies.asked, said(agent)) == (1, ["q"])
    agent.answer({"type": "approve"})
    assert ask(agent, "q", "r")["answer"] == "done"
    assert (workspace / "a").read_text() == "b"


def test_a_request_that_was_cut_off_goes_on(make_agent: MakeAgent) -> None:
    replies = Replies("one")
    agent = make_agent(replies.script)
    replies.cut_off = True
    with pytest.raises(CutOff):
        ask(agent, "q", "r")
    assert ask(agent, "q", "r")["answer"] == "one"
    assert said(agent) == ["q"]
    assert agent.values["usage"]["turn"] == 1


def test_another_message_with_a_known_id_is_refused(make_agent: MakeAgent) -> None:
    agent = make_agent(["one", "two"])
    ask(agent, "q1", "r1")
    reply = agent.transcript[-1].id or ""
    for text, request in (("other", "r1"), ("q1", reply)):
        with pytest.raises(ThreadError, match="another message with the id"):
            ask(agent, text, request)
    assert [each.text for each in agent.transcript] == ["q1", "one"]
    assert ask(agent, "other", "r2")["answer"] == "two"


def test_messages_without_an_id_and_a_rewritten_transcript_are_new_every_time(make_agent: MakeAgent) -> None:
    agent = make_agent(["one", "two", "three", "four"])
    agent.say("q")
    agent.say("q")
    agent.run({"messages": [*agent.transcript, ("user", "q")]})
    agent.run({"messages": [*agent.transcript, {"role": "user", "content": "q"}]})
    assert (said(agent), agent.values["answer"]) == (["q"] * 4, "four")
    agent = make_agent(["one", "two"], thread="other")
    ask(agent, "q1", "r1")
    agent.run({"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), MESSAGE]})
    assert (said(agent), agent.values["usage"]["turn"]) == (["q1"], 2)


def test_a_fork_has_the_requests_of_the_step_that_it_was_made_from(make_agent: MakeAgent) -> None:
    replies = Replies("one", "two", "two again")
    agent = make_agent(replies.script)
    ask(agent, "q1", "r1")
    threads = Threads(agent.graph)
    step = threads.steps("thread")[-1].number
    ask(agent, "q2", "r2")
    threads.fork("thread", step, new="copy")
    copy = make_agent(agent.model, checkpointer=agent.checkpointer, thread="copy")
    assert ask(copy, "q1", "r1")["answer"] == "one"
    assert replies.asked == 2
    ask(copy, "q2", "r2")  # said after that step
    assert (said(copy), replies.asked) == (["q1", "q2"], 3)
