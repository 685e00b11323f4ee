"""Half of a character, wherever it comes from, ends no run and makes no thread unreadable."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.types import Command

from tests.agents import FREE, call, calls
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion, OpenAIServer

HALF = "a\ud800b"
WHOLE = "a\ufffdb"


@tool
def note(text: str) -> str:
    """Return a text that is not whole."""
    return text + HALF


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": [HumanMessage(HALF)]},
        {"messages": [("user", HALF)]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": HALF}]}]},
        Command(update={"messages": [HumanMessage(HALF)]}),
    ],
)
@pytest.mark.parametrize("saver", ["sqlite"], indirect=True)
def test_a_request_is_cleaned_before_anything_reads_it(make_agent: MakeAgent, saver: Any, asked: Any) -> None:
    agent = make_agent(["Done."], checkpointer=saver)
    first = agent.run(asked)["messages"]
    assert str(first[0].text) == WHOLE
    assert agent.transcript == first  # as it was stored, ids included


def test_what_the_model_calls_is_what_is_asked_about_and_what_runs(
    make_agent: MakeAgent, workspace: Path
) -> None:
    agent = make_agent([calls(call("write_file", path=f"{HALF}.txt", content=HALF)), f"Done {HALF}"])
    agent.say("Write it.")
    assert agent.asked[0]["args"] == {"path": f"{WHOLE}.txt", "content": WHOLE}
    assert agent.answer({"type": "approve"})["answer"] == f"Done {WHOLE}"
    assert (workspace / f"{WHOLE}.txt").read_text() == WHOLE


@pytest.mark.parametrize("call_id", [HALF, "c\0", "c" * 5000])
@pytest.mark.parametrize("saver", ["postgres"], indirect=True)
def test_an_id_that_no_database_takes_is_replaced(make_agent: MakeAgent, saver: Any, call_id: str) -> None:
    replies = [calls({**call("note", text="x"), "id": call_id}), "Done."]
    agent = make_agent(replies, tools=[note], checkpointer=saver, **FREE)
    assert agent.say("Note.")["answer"] == "Done."
    assert [each.content for each in agent.tool_messages("note")] == [f"x{WHOLE}"]


def test_a_provider_is_sent_text_that_it_can_read(make_agent: MakeAgent, server: OpenAIServer) -> None:
    server.answers += [Completion(calls=[Call("note", {"text": HALF}, "c1")]), Completion("Done.")]
    agent = make_agent("openai:some-model", tools=[note], **FREE)
    assert agent.say(HALF)["answer"] == "Done."
    contents = [each["content"] for each in server.requests[-1].body["messages"]]
    assert contents.index(WHOLE) < contents.index(WHOLE * 2)


@pytest.mark.slow
def test_bytes_of_the_command_line_and_of_stdin_that_are_no_text_are_read_as_text(cli: CommandLine) -> None:
    model = cli.script("First.", "Second.")
    asked = cli.run_process("ask", "caf\udce9?", "--thread", "t", "--model", model)
    piped = cli.run_process("ask", "-", "--thread", "u", "--model", model, stdin="caf\udce9?")
    for thread, done in (("t", asked), ("u", piped)):
        assert (done.code, "Traceback" in done.err) == (0, False), done.err
        assert "caf\ufffd?" in cli.run("threads", "show", thread).out
