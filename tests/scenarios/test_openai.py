"""Whole runs with langchain-openai in front of a real HTTP server that speaks the OpenAI protocol."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from skills_agent.nodes.model_errors import ModelCallError
from tests.agents import Agent, write_skill
from tests.kit import MakeAgent
from tests.openai_server import Call, Completion, OpenAIServer, Raw, assert_calls_are_answered, error


@pytest.fixture(autouse=True)
def _skills(skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.", "APRICOT\n", scripts__run_py="print('3 apples')\n")
    write_skill(skills_dir, "beta", "Counts pears.", "BLUEBERRY\n")


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    return make_agent("openai:some-model", model_parameters={"max_retries": 1})


LOADS = [Call("load_skill", {"name": name}, f"c-{name}") for name in ("alpha", "beta")]
ANSWERS = [
    Completion(calls=[*LOADS, Call("list_dir", {}, "c3")]),
    Completion(calls=[Call("run_script", {"skill": "alpha", "path": "scripts/run.py", "args": []}, "c4")]),
    Completion("There are 3 apples."),
]
APPROVED: Any = Command(resume={"decisions": [{"type": "approve"}]})


def assert_protocol_is_kept(server: OpenAIServer) -> None:
    """Every tool call is followed by its answers; requests and the list of tools only grow at their end."""
    bodies = [asked.body for asked in server.requests]
    for body in bodies:
        assert_calls_are_answered(body)
    for before, after in itertools.pairwise(bodies):
        assert json.dumps(after["messages"]).startswith(json.dumps(before["messages"])[:-1])
        assert after["tools"][: len(before["tools"])] == before["tools"]


def test_a_whole_run_keeps_the_protocol(agent: Agent, server: OpenAIServer) -> None:
    server.answers.extend(ANSWERS)
    agent.say("How many apples?")
    result = agent.answer({"type": "approve"})
    assert (result["answer"], result["loaded"]) == ("There are 3 apples.", ["alpha", "beta"])
    assert result["usage"]["thread"]["input_tokens"] == 33
    assert_protocol_is_kept(server)
    sent = json.dumps(server.requests[-1].body["messages"])
    assert ("APRICOT" in sent, "3 apples" in sent, "cache_control" in sent) == (True, True, False)
    assert {*server.requests[0].body} <= {"messages", "tools", "model", "stream", "stream_options"}
    # A small model fills in every field that there is; 2,300 tokens for fifteen tools were too many.
    tools = {each["function"]["name"]: each["function"] for each in server.requests[0].body["tools"]}
    assert tools["load_skill"]["parameters"]["properties"] == {"name": {"type": "string"}}
    assert {"unload_skill", "search_skills", "stop_command"}.isdisjoint(tools)
    text = json.dumps(server.requests[0].body["tools"])
    for word in ("anyOf", '"null"', '"default"', "maxLength", "minimum", "additionalProperties", "Claude"):
        assert word not in text
    assert len(text) // 4 <= 1_200


async def test_a_streamed_run_keeps_the_protocol(agent: Agent, server: OpenAIServer) -> None:
    server.answers.extend(ANSWERS)
    asked: Any = {"messages": [HumanMessage("How many apples?")]}
    _ = [part async for part in agent.graph.astream(asked, agent.config, stream_mode="messages")]
    parts: Any = agent.graph.astream(APPROVED, agent.config, stream_mode="messages")
    tokens = [chunk.text async for chunk, metadata in parts if metadata["langgraph_node"] == "decide"]
    assert "".join(tokens) == "There are 3 apples."
    assert_protocol_is_kept(server)


LOOPS = """
import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from skills_agent.graph import Settings, build_graph

settings = Settings(workspace=".", home="{home}", bundled_skills=False, model="openai:some-model")
graph, other = build_graph(settings).compile(), build_graph(settings).compile()

async def ask(graph, times=1):
    asked = [{{"messages": [("user", "How many apples?")]}}] * times
    return [each["answer"] for each in await graph.abatch(asked)]

for made, times in ((graph, 3), (graph, 3), (graph, 1), (other, 1)):
    print(asyncio.run(ask(made, times)))
sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as threads:
    print(*threads.map(lambda _: asyncio.run(ask(other))[0], range({threads})))
"""


@pytest.mark.slow
def test_each_event_loop_of_a_program_has_its_own_connections(workspace: Path, server: OpenAIServer) -> None:
    """As in a program that calls `asyncio.run` again and again, with one graph or two, and in threads."""
    threads = 16
    server.keeps_alive = True
    server.answers.extend(Completion("3") for _ in range(8 + threads))
    program = [sys.executable, "-c", LOOPS.format(home=workspace, threads=threads)]
    done = subprocess.run(program, cwd=workspace, capture_output=True, text=True, check=False)
    expected = "['3', '3', '3']\n" * 2 + "['3']\n" * 2 + " ".join("3" * threads) + "\n"
    assert (done.stdout, done.stderr) == (expected, "")
    assert len(server.requests) == 8 + threads


@pytest.mark.parametrize(
    "trouble",
    [
        Raw(200, b"<html>hello</html>", "text/html"),
        Raw(200, b"{}"),
        error(401, "no such key"),
        error(500, "oops"),
    ],
)
def test_a_failing_provider_is_told_in_a_sentence(agent: Agent, server: OpenAIServer, trouble: Raw) -> None:
    server.answers.extend([trouble, trouble])
    with pytest.raises(ModelCallError) as failed:
        agent.say("hi")
    assert "\n" not in str(failed.value)
    server.answers.clear()
    server.answers.append(Completion("Here again."))
    assert agent.run(None)["answer"] == "Here again."
