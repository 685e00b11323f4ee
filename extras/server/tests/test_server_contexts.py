"""The context of a request, as the agent's app before a LangGraph server reads it: no server is needed."""

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from skills_agent.server.http import ContextReader, with_context

MISSPELT: list[tuple[dict[str, Any], str]] = [
    ({"context": {"only_tool": ["read_file"]}}, "`only_tools`?"),
    ({"config": {"configurable": {"only_tool": ["read_file"]}}}, "`only_tools`?"),
    ({"context": {"max_tool_calls": "many"}}, "max_tool_calls: "),
    ({"config": {"configurable": {"max_tool_calls": 0}}}, "max_tool_calls: "),
    ({"config": {"configurable": {"require_aproval_for": ["write"]}}}, "`require_approval_for`?"),
    ({"context": ["only_tools"]}, "dictionary"),
]
RIGHT: list[dict[str, Any]] = [
    {"context": {"only_tools": ["read_file"]}, "config": {"tags": ["x"]}},
    {"config": {"configurable": {"thread_id": "t", "user": "u", "x-header": "h", "max_tool_calls": 3}}},
    *({"context": None, "config": None}, {"context": {}}, {}),
]


async def echo(request: Request) -> Response:
    return Response(await request.body())


async def echo_all(websocket: WebSocket) -> None:
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)


@pytest.fixture(scope="module")
def client() -> TestClient:
    routes = [Route("/runs", echo, methods=["POST"]), WebSocketRoute("/socket", echo_all)]
    app = Starlette(routes=routes)

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        await ContextReader(scope, receive, send).pass_on(app)

    return TestClient(reading)


@pytest.mark.parametrize(("request_", "said"), MISSPELT)
@pytest.mark.parametrize("form", ["run", "batch", "command"])
def test_what_is_misspelt_is_refused_in_one_sentence(
    client: TestClient, request_: dict[str, Any], said: str, form: str
) -> None:
    body = {"run": request_, "batch": [{}, request_], "command": {"id": 1, "params": request_}}[form]
    refused = client.post("/runs", json=body)
    assert refused.status_code == 422
    assert "\n" not in refused.text
    assert said in refused.text


@pytest.mark.parametrize("request_", RIGHT)
def test_any_other_request_goes_on_as_it_is(client: TestClient, request_: dict[str, Any]) -> None:
    for body in (request_, [request_], {"params": {"config": request_.get("config")}}):
        assert client.post("/runs", content=json.dumps(body)).content == json.dumps(body).encode()


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"[" * 100_000, b"1", b'"x"', b'{"params": 1}'])
def test_what_is_no_request_is_left_to_the_route(body: bytes) -> None:
    assert with_context(body) == body


@pytest.mark.parametrize(
    "config", [{}, {"config": None}, {"config": {"tags": ["x"], "configurable": {"a": 1}}}]
)
def test_the_context_of_a_command_goes_where_the_server_obeys_it(config: dict[str, Any]) -> None:
    given = {"input": {}, "context": {"max_tool_calls": 2}, **config}
    command = {"id": 1, "method": "run.start", "params": given}
    params = json.loads(with_context(json.dumps(command).encode()))["params"]
    assert params["config"]["configurable"].pop("max_tool_calls") == 2
    assert params == {"input": {}, "config": config.get("config") or {"configurable": {}}}


def test_a_command_of_a_websocket_is_answered_and_the_next_one_read(client: TestClient) -> None:
    right = {"id": 2, "params": {"context": {"max_tool_calls": 2}}}
    with client.websocket_connect("/socket") as socket:
        socket.send_json({"id": 1, "params": {"context": {"max_tool_call": 2}}})
        answer = socket.receive_json()
        assert (answer["type"], answer["id"]) == ("error", 1)
        assert "`max_tool_calls`?" in answer["message"]
        socket.send_json(right)
        assert socket.receive_json()["params"]["config"]["configurable"] == {"max_tool_calls": 2}
