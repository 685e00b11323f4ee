"""What the app before a server's routes refuses, with the server's configuration in its place."""

import sys
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from skills_agent.server.http import Door

PAGE = "https://chat.example.com"
SOCKET = "ws://127.0.0.1:2024/threads/t/stream/events"


async def served(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def door(monkeypatch: pytest.MonkeyPatch, *, users: bool) -> TestClient:
    server, config = ModuleType("langgraph_api"), ModuleType("langgraph_api.config")
    given: Any = {"LANGGRAPH_AUTH": {"path": "x"} if users else None, "LANGGRAPH_AUTH_TYPE": "noop"}
    vars(config).update(given, CORS_CONFIG={"allow_origins": [PAGE]})
    vars(server).update(config=config)
    monkeypatch.setitem(sys.modules, "langgraph_api", server)
    monkeypatch.setitem(sys.modules, "langgraph_api.config", config)
    return TestClient(Door(served), base_url="http://127.0.0.1:2024")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403), ({"host": "localhost.evil.example"}, 403), ({"host": "["}, 403),
        ({"origin": "https://evil.example"}, 403), ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({}, 204), ({"host": "localhost:2024"}, 204), ({"host": "a.localhost"}, 204),
        ({"host": "[::1]:2024"}, 204), ({"origin": PAGE}, 204),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 204),
    ],
)  # fmt: skip
def test_a_server_without_users_answers_its_person_and_no_name_and_no_page_of_others(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], status: int
) -> None:
    client = door(monkeypatch, users=False)
    assert client.post("/threads", headers=headers).status_code == status
    refused = pytest.raises(WebSocketDisconnect) if status == 403 else nullcontext()
    with refused, client.websocket_connect(SOCKET, headers=headers):
        pass


@pytest.mark.parametrize("path", ["/internal/x", "/deploy", "/deploy/x"])
def test_what_no_authentication_covers_is_closed_where_there_are_users(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    client = door(monkeypatch, users=True)
    assert client.post(path).status_code == 403
    assert client.post("/threads", headers={"host": "agent.example", "origin": PAGE}).status_code == 204
    assert door(monkeypatch, users=False).post(path).status_code == 204


def test_the_server_s_calls_of_itself_are_no_client_s(monkeypatch: pytest.MonkeyPatch) -> None:
    client = door(monkeypatch, users=True)
    inner = TestClient(client.app, root_path="/noauth", base_url="http://evil.example")
    assert inner.post("/noauth/internal/x").status_code == 204
