"""A real `langgraph dev` and a client that does as Agent Chat UI where a person types over a question."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.langgraph_dev import Server
from tests.openai_server import KEY, Call, Completion, OpenAIServer, openai_server

pytestmark = [pytest.mark.server, pytest.mark.slow]

LIE = "Successfully handled tool call."


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture
def server(tmp_path: Path, model: OpenAIServer) -> Iterator[Server]:
    (tmp_path / "work").mkdir()
    more = {
        "SKILLS_AGENT_MODEL": "openai:some-model",
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": KEY,
    }
    server = Server(tmp_path, tmp_path / "work", more=more)
    yield server
    server.stop()


def ensure_tool_calls_have_responses(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what src/lib/ensure-tool-responses.ts of langchain-ai/agent-chat-ui adds to an input."""
    following = [*messages[1:], {"type": ""}]
    return [
        {
            "type": "tool",
            "tool_call_id": each["id"],
            "id": f"do-not-render-{uuid4()}",
            "name": each["name"],
            "content": LIE,
        }
        for message, after in zip(messages, following, strict=True)
        if message["type"] == "ai" and after["type"] != "tool"
        for each in message["tool_calls"]
    ]


def test_typing_over_a_question_in_agent_chat_ui_is_no_success(
    server: Server, model: OpenAIServer, tmp_path: Path
) -> None:
    model.answers.append(Completion(calls=[Call("write_file", {"path": "a", "content": "x"}, "call_0")]))
    model.answers.append(Completion("Then I leave it."))
    model.answers.append(Completion(calls=[Call("write_file", {"path": "b", "content": "y"}, "call_0")]))
    client = server.start()
    thread = client.threads.create()["thread_id"]

    def submit(text: str, *added: Mapping[str, Any]) -> list[dict[str, Any]]:
        said = {"type": "human", "id": str(uuid4()), "content": [{"type": "text", "text": text}]}
        modes: Any = ["values"]
        asked: Any = {"messages": [*added, said]}
        options: dict[str, Any] = {"stream_mode": modes, "stream_subgraphs": True, "on_disconnect": "cancel"}
        parts = list(client.runs.stream(thread, "agent", input=asked, **options))
        assert not [each for each in parts if each.event == "error"]
        values: Any = client.threads.get_state(thread)["values"]
        found: list[dict[str, Any]] = values["messages"]
        return found

    messages = submit("Write a.")
    assert client.threads.get_state(thread)["interrupts"]
    added = ensure_tool_calls_have_responses(messages)
    assert [each["tool_call_id"] for each in added] == ["call_0"]
    messages = submit("Rather not.", *added)
    assert [each["type"] for each in messages] == ["human", "ai", "tool", "human", "ai"]
    assert messages[2]["content"].startswith("Not run: superseded by a new message.")
    read = json.dumps(model.requests[-1].body["messages"])
    assert LIE not in read
    assert "Not run: superseded by a new message." in read
    assert not (tmp_path / "work" / "a").exists()

    messages = submit("Write b.")
    (question,) = client.threads.get_state(thread)["interrupts"]
    assert question["value"]["action_requests"][0]["args"]["path"] == "b"
    assert messages[-1]["tool_calls"][0]["id"] not in {"call_0", ""}
    model.answers.append(Completion("Written."))
    answer: Any = {"resume": {"decisions": [{"type": "approve"}]}}
    client.runs.wait(thread, "agent", command=answer)
    assert (tmp_path / "work" / "b").read_text() == "y"
