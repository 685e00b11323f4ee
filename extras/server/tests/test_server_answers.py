"""A real `langgraph dev` of a host's graph: Agent Inbox answers its question, and the answer has a form."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.langgraph_dev import Server, pea_server

pytestmark = [pytest.mark.server, pytest.mark.slow]

PROGRAM = '''
from pydantic import BaseModel

from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel


class Report(BaseModel):
    """What was sent."""

    to: str


def send(to: str) -> str:
    """Send something."""
    return f"sent to {to}"


SENT = {"content": "", "tool_calls": [{"name": "send", "args": {"to": "Ada"}}]}


def report(messages):
    (result,) = [each.text for each in messages if each.type == "tool"]
    return {"content": "", "tool_calls": [{"name": "Report", "args": {"to": str(result)}}]}


graph = build_graph(model=ScriptedChatModel([SENT, report]), tools=[send], response_format=Report).compile()
'''
QUESTION: Any = {"messages": [{"role": "user", "content": "Send it."}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    config = folder / "langgraph.json"
    config.write_text(json.dumps({"dependencies": ["."], "graphs": {"agent": f"{program}:graph"}}))
    server = pea_server(folder, config=str(config))
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"type": "accept", "args": None}, "sent to Ada"),
        ({"type": "edit", "args": {"action": "send", "args": {"to": "Bob"}}}, "sent to Bob"),
        ({"type": "ignore", "args": None}, ""),
        ({"type": "response", "args": "Not to her."}, "Not to her."),
    ],
)
def test_an_answer_of_agent_inbox_counts_after_one_that_was_not_understood(
    server: Server, answer: Any, result: str
) -> None:
    client = server.client
    assert client
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=QUESTION)
    (before,) = client.threads.get_state(thread)["interrupts"]
    client.runs.wait(thread, "agent", command={"resume": [{"type": "perhaps"}]})
    state: Any = client.threads.get_state(thread)
    (question,) = state["interrupts"]
    assert question["id"] == before["id"]
    told = question["value"]["action_requests"][0]["description"]
    assert told.startswith("Your answer was not understood: ")
    assert client.threads.get(thread)["status"] == "interrupted"
    assert state["values"]["structured_response"] is None

    ended: Any = client.runs.wait(thread, "agent", command={"resume": [answer]})
    (message,) = [each for each in ended["messages"] if each["type"] == "tool" and each["name"] == "send"]
    assert result in message["content"]
    assert ("sent to" in message["content"]) == (answer["type"] in {"accept", "edit"})
    assert ended["structured_response"] == {"to": message["content"]}
    state = client.threads.get_state(thread)
    assert (state["values"]["structured_response"], state["interrupts"]) == (ended["structured_response"], [])
