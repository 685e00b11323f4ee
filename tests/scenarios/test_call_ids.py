"""A server whose ids of calls are no ids: every call runs once, and gets its own result."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateUpdate

from skills_agent.graph.threads.backends import JOURNAL_FILE
from skills_agent.graph.threads.journals import FileJournal
from skills_agent.graph.user_folders import state_folder
from tests.agents import FREE, Agent
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion, OpenAIServer


@pytest.fixture
def agent(server: OpenAIServer, make_agent: MakeAgent) -> Agent:
    return make_agent("openai:m", **FREE)


def write(name: str, call_id: str) -> Call:
    return Call("write_file", {"path": name, "content": name}, call_id)


def assert_every_call_has_its_answer(server: OpenAIServer) -> None:
    """Each id is one call of the whole conversation, and its answer follows it: what Anthropic insists on."""
    for asked in server.requests:
        waiting: set[str] = set()
        seen: list[str] = []
        for message in asked.body["messages"]:
            assert message["role"] == "tool" or not waiting
            made = [each["id"] for each in message.get("tool_calls") or []]
            assert all(made)
            seen += made
            waiting |= set(made)
            if message["role"] == "tool":
                waiting.remove(message["tool_call_id"])
        assert not waiting
        assert len(set(seen)) == len(seen)


def results(agent: Agent) -> dict[str, str]:
    """Return what each call was answered with, by the path that it named."""
    by_id = {each.tool_call_id: each.text for each in agent.transcript if isinstance(each, ToolMessage)}
    replies = [each for each in agent.transcript if isinstance(each, AIMessage)]
    return {each["args"]["path"]: by_id[each["id"] or ""] for reply in replies for each in reply.tool_calls}


@pytest.mark.parametrize(
    ("ids", "path"), [(("c", "c"), "invoke"), (("", ""), "stream"), (("", "c"), "invoke")]
)
def test_two_calls_with_one_id_or_none_both_run(
    agent: Agent, server: OpenAIServer, workspace: Path, ids: tuple[str, str], path: str
) -> None:
    server.answers.extend(
        [Completion(calls=[write("one", ids[0]), write("two", ids[1])]), Completion("done")]
    )
    asked: Any = {"messages": [HumanMessage("go")]}
    if path == "invoke":
        agent.run(asked)
    else:
        assert list(agent.graph.stream(asked, agent.config, stream_mode=["messages", "updates"]))
    assert [(workspace / name).read_text() for name in ("one", "two")] == ["one", "two"]
    assert ["one" in results(agent)["one"], "two" in results(agent)["two"]] == [True, True]
    assert agent.values["answer"] == "done"
    assert_every_call_has_its_answer(server)


def test_an_id_that_is_used_again_in_a_later_step_and_turn_is_a_call_each_time(
    agent: Agent, server: OpenAIServer, workspace: Path
) -> None:
    server.answers.extend(
        [
            Completion(calls=[write("one", "call_0"), write("two", "call_1")]),
            Completion(calls=[write("three", "call_0")]),
            Completion("done"),
            Completion(calls=[write("four", "call_1"), write("five", "call_0")]),
            Completion("done again"),
        ]
    )
    agent.say("go")
    agent.say("more")
    for name in ("one", "two", "three", "four", "five"):
        assert (workspace / name).read_text() == name
        assert name in results(agent)[name]
    assert agent.values["usage"]["thread"]["tool_calls"] == 5
    assert_every_call_has_its_answer(server)


def test_a_call_with_the_id_of_a_lost_one_leaves_what_is_known_of_that_one(
    server: OpenAIServer, make_agent: MakeAgent, workspace: Path, tmp_path: Path
) -> None:
    """Killed before the reply with the call was kept: the server counts from the beginning again."""
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        agent = make_agent("openai:m", checkpointer=saver, **FREE)
        server.answers.extend([Completion(calls=[write("one", "call_0")]), Completion("done")])
        agent.say("go")
        journal = FileJournal(state_folder(agent.settings) / JOURNAL_FILE)
        entry = journal.get("thread", "call_0")
        assert entry is not None
        journal.put(replace(entry, call_id="call_9", status="started", checkpoint="lost", settled=False))
        (workspace / "one").unlink()
        server.answers.append(Completion(calls=[write("two", "call_9")]))
        server.answers.extend([Completion(calls=[write("one", "call_8")]), Completion("done")])
        agent.say("go on")
        assert (workspace / "two").read_text() == "two"
        assert len(agent.state.interrupts) == 1
        assert not (workspace / "one").exists()
        agent.answer({"type": "approve"})
        assert (workspace / "one").read_text() == "one"


def test_a_thread_of_an_earlier_release_with_repeated_ids_goes_on(
    agent: Agent, server: OpenAIServer, workspace: Path
) -> None:
    def old(number: int, text: str) -> list[AnyMessage]:
        made = [{"name": "read_file", "args": {"path": text}, "id": "call_0"}]
        return [HumanMessage(text, id=f"h{number}"), AIMessage("", id=f"a{number}", tool_calls=made)]

    answer = ToolMessage("the first", tool_call_id="call_0", id="refused-call_0", name="read_file")
    kept = [*old(1, "one"), answer, AIMessage("done", id="d1"), *old(2, "two")]
    server.answers.append(Completion("hello"))
    agent.say("hi")
    write_as_before(agent, kept, "answer")
    server.answers.extend([Completion(calls=[write("three", "call_0")]), Completion("done")])
    agent.say("three")
    assert "three" in results(agent)["three"]
    assert "Not run" in results(agent)["two"]
    assert results(agent)["one"] == "the first"
    assert_every_call_has_its_answer(server)


def write_as_before(agent: Agent, messages: Sequence[BaseMessage], node: str) -> None:
    """Write messages as they were kept, past all that looks at what comes from outside."""
    CompiledStateGraph.bulk_update_state(
        agent.graph, agent.config, [[StateUpdate({"messages": [*messages]}, node)]]
    )
