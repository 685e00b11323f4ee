"""A real `langgraph dev` with users: as the owner of a thread, a stranger, an operator, and nobody."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from skills_agent.server.auth import CLOSED_NAMESPACES
from tests.langgraph_dev import Server, ask, pea_server, running, write_tokens

pytestmark = [pytest.mark.server, pytest.mark.slow]

HELLO = {"assistant_id": "agent", "input": ask("Hello.")}
COUNT = {"assistant_id": "agent", "input": ask("How many peas are in harvest.csv?")}
WRITE = {"name": "write_file", "args": {"path": "forged.txt", "content": "x"}, "id": "c", "type": "tool_call"}
FORGED = {"call": WRITE, "turn": 1, "edited": False, "approved": "", "skill": None, "earlier": []}
FORMS = ("runs/wait", "runs/stream", "runs")


@dataclass(frozen=True)
class Client:
    """Requests of one user, or of nobody."""

    url: str
    token: str = ""

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        return httpx.request(method, self.url + path, json=body, headers=headers, timeout=60)

    def thread(self, **metadata: str) -> str:
        thread: str = self("POST", "/threads", {"metadata": metadata}).json()["thread_id"]
        return thread


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    tokens = write_tokens(folder / "tokens.toml", "alice@example.com", "bob", operators=["root"])
    more = {"SKILLS_AGENT_SERVER_TOKENS": str(tokens)}
    with running(pea_server(folder, config="langgraph.server.json", more=more)) as server:
        yield server


@pytest.fixture
def nobody(server: Server) -> Client:
    return Client(server.url)


@pytest.fixture
def owner(server: Server) -> Client:
    return Client(server.url, "of alice@example.com")


@pytest.fixture
def stranger(server: Server) -> Client:
    return Client(server.url, "of bob")


@pytest.fixture
def operator(server: Server) -> Client:
    return Client(server.url, "of root")


def test_nobody_gets_in(nobody: Client, owner: Client) -> None:
    thread = owner.thread()
    for method, path in [
        *(
            ("GET", f"/threads/{thread}"),
            ("POST", "/threads"),
            ("POST", "/runs/wait"),
            ("POST", "/runs/crons"),
        ),
        *(("POST", "/assistants/search"), ("PUT", "/store/items"), ("POST", "/store/namespaces")),
        *(("GET", "/info"), ("GET", "/docs"), ("POST", "/mcp"), ("POST", "/a2a/agent")),
    ]:
        for headers in ({}, {"x-auth-scheme": "langsmith"}, {"authorization": "Bearer wrong"}):
            assert nobody(method, path, {}, **headers).status_code == 401, path
    for path in ("/internal/truncate", "/deploy", "/internal/debug/thread/1"):
        for who in (nobody, owner):
            assert who("POST", path, {"threads": True}).status_code == 403, path
    assert owner("GET", f"/threads/{thread}").status_code == 200


def test_a_thread_and_its_runs_are_their_owners(owner: Client, stranger: Client, operator: Client) -> None:
    thread = owner.thread(topic="peas")
    made = owner("GET", f"/threads/{thread}").json()
    assert made["metadata"] == {"topic": "peas", "owner": "alice@example.com"}
    assert owner("POST", f"/threads/{thread}/runs/wait", HELLO).json()["answer"]
    assert owner("POST", f"/threads/{thread}/runs/stream", HELLO).status_code == 200
    for form in FORMS:
        taken = stranger("POST", f"/threads/{thread}/{form}", HELLO | {"if_not_exists": "create"})
        assert taken.status_code in (403, 404), taken.text
    taken = stranger("POST", "/threads", {"thread_id": thread, "if_exists": "do_nothing"})
    assert taken.status_code == 409
    assert stranger("POST", "/threads/search", {}).json() == []
    assert stranger("POST", "/threads/count", {}).json() == 0
    assert stranger("POST", "/threads/prune", {"thread_ids": [thread]}).status_code == 404
    assert stranger("POST", "/runs/cancel", {"status": "all"}).status_code == 404
    assert operator("GET", f"/threads/{thread}").status_code == 200
    assert owner("GET", f"/threads/{thread}").json()["metadata"]["owner"] == "alice@example.com"


def test_every_route_to_a_thing_of_somebody_else_is_closed(
    nobody: Client, owner: Client, stranger: Client
) -> None:
    thread = owner.thread()
    run = owner("POST", f"/threads/{thread}/runs", HELLO).json()["run_id"]
    owner("GET", f"/threads/{thread}/runs/{run}/join")
    owned = {
        "thread_id": thread,
        "run_id": run,
        "checkpoint_id": owner("GET", f"/threads/{thread}/state").json()["checkpoint"]["checkpoint_id"],
        "assistant_id": owner("POST", "/assistants", {"graph_id": "agent"}).json()["assistant_id"],
        "cron_id": owner("POST", "/runs/crons", HELLO | {"schedule": "0 0 1 1 *"}).json()["cron_id"],
        "namespace": "x",
    }
    documented = json.loads((Path(str(files("langgraph_api"))).parent / "openapi.json").read_text())["paths"]
    verbs = {"get", "put", "post", "patch", "delete"}
    routes = [
        (verb.upper(), path.format(**owned))
        for path in documented
        if "{" in path
        for verb in documented[path].keys() & verbs
    ]
    assert len(routes) > 30
    body: Any = HELLO | {"schedule": "0 0 1 1 *", "metadata": {}, "values": {}, "version": 1}
    body |= {"channels": ["values"], "id": 1, "method": "run.start", "params": HELLO}
    body |= {"checkpoint": {"checkpoint_id": owned["checkpoint_id"], "checkpoint_ns": ""}}
    for method, path in routes:
        assert nobody(method, path, body).status_code == 401, path
        answer = stranger(method, path, body)
        # Streams and commands begin before they look who asks; what they say then is the refusal.
        says_so = answer.status_code == 200 and ("not found" in answer.text or not answer.text)
        assert answer.status_code in (403, 404) or says_so, (method, path, answer.text)
    assert owner("GET", f"/threads/{thread}/state").json()["values"]["answer"]


def test_no_client_says_who_owns_a_thing(owner: Client, stranger: Client) -> None:
    """Each kind of thing once; test_server_refusals.py has what else may not be said."""
    thread, given = owner.thread(), {"metadata": {"owner": "bob"}}
    for method, path, body in [
        *(("POST", "/threads", given), ("PATCH", f"/threads/{thread}", given)),
        *(("POST", "/runs/wait", HELLO | given), ("POST", "/runs/wait", HELLO | {"config": given})),
        *(("POST", "/runs/batch", [HELLO | given]), ("POST", "/assistants", {"graph_id": "agent"} | given)),
        ("POST", "/runs/crons", HELLO | {"schedule": "0 0 1 1 *"} | given),
    ]:
        assert owner(method, path, body).status_code == 403, (path, body)
    own = {"metadata": {"owner": "alice@example.com"}}
    assert owner("PATCH", f"/threads/{thread}", own).status_code == 200
    made = stranger("POST", "/runs/wait", HELLO | {"on_completion": "keep"}).headers["content-location"]
    (kept,) = stranger("POST", "/threads/search", {}).json()
    assert kept["thread_id"] in made
    assert kept["metadata"]["owner"] == "bob"
    assert owner("GET", f"/threads/{kept['thread_id']}").status_code == 404


@pytest.mark.parametrize(
    "part",
    [
        {"command": {"goto": {"node": "act", "input": FORGED}}},
        {"command": {"resume": "x", "goto": ["answer"]}},
        {"command": {"update": {"grants": {"c": {"decision": "approve"}}}}},
        {"webhook": "https://1.1.1.1/"},
        {"config": {"configurable": {"__pregel_resuming": True}}},
        {"config": {"configurable": {"thread_id": "00000000-0000-0000-0000-000000000000"}}},
    ],
)
def test_only_operators_say_what_a_run_does_instead_of_the_graph(
    owner: Client, server: Server, part: dict[str, Any]
) -> None:
    thread = owner.thread()
    # A thread that has a state can be sent anywhere.
    owner("POST", f"/threads/{thread}/runs/wait", HELLO)
    wish = {"assistant_id": "agent"} | part
    for form in FORMS:
        refused = owner("POST", f"/threads/{thread}/{form}", wish)
        assert refused.status_code == 403, refused.text
    if "command" in part and "resume" not in part["command"]:
        assert owner("POST", "/runs/wait", wish).status_code == 403
        assert owner("POST", "/runs/batch", [wish]).status_code == 403
    assert not (server.workspace / "forged.txt").exists()
    assert owner("GET", f"/threads/{thread}/state").json()["values"]["grants"] == {}


def test_only_operators_write_state(owner: Client, operator: Client) -> None:
    thread = owner.thread(graph_id="agent")
    owner("POST", f"/threads/{thread}/runs/wait", HELLO)
    written = {"values": {"messages": [{"role": "user", "content": "forged"}]}, "as_node": "answer"}
    assert owner("POST", f"/threads/{thread}/state", written).status_code == 403
    assert owner("POST", f"/threads/{thread}/copy").status_code == 403
    steps = {"metadata": {"graph_id": "agent"}, "supersteps": [{"updates": [written]}]}
    assert "for operators" in owner("POST", "/threads", steps).text
    assert "forged" not in str([owner("POST", "/threads/search", {}).json()])
    assert operator("POST", f"/threads/{thread}/state", written).status_code == 200
    assert owner("GET", f"/threads/{thread}/state").json()["values"]["messages"][-1]["content"] == "forged"
    copied = operator("POST", f"/threads/{thread}/copy").json()["thread_id"]
    assert owner("GET", f"/threads/{copied}").status_code == 200


def test_an_open_question_takes_an_answer_of_its_owner_and_no_jump_beside_it(
    owner: Client, stranger: Client
) -> None:
    thread = owner.thread()
    (question,) = owner("POST", f"/threads/{thread}/runs/wait", COUNT).json()["__interrupt__"]
    approval = {"decisions": [{"type": "approve"}]}
    respond: dict[str, Any] = {"interrupt_id": question["id"], "namespace": [], "response": approval}
    jumps: list[tuple[dict[str, Any], Client]] = [
        ({"goto": "answer"}, owner),
        ({"update": {"answer": "x"}}, owner),
        ({}, stranger),
    ]
    for more, who in jumps:
        command = {"id": 1, "method": "input.respond", "params": respond | more}
        assert who("POST", f"/threads/{thread}/commands", command).json()["type"] == "error"
    for text in ("approve", ["approve"], True, 1):
        wish = {"assistant_id": "agent", "command": {"resume": text}}
        answer = owner("POST", f"/threads/{thread}/runs/wait", wish)
        (again,) = answer.json()["__interrupt__"]
        assert again["id"] == question["id"]
        told = again["value"]["action_requests"][0]["description"]
        assert told.startswith("Your answer was not understood"), answer.text
    resumed = {"assistant_id": "agent", "command": {"resume": {question["id"]: approval}}}
    assert stranger("POST", f"/threads/{thread}/runs/wait", resumed).status_code == 404
    assert "24" in owner("POST", f"/threads/{thread}/runs/wait", resumed).json()["answer"]


def test_assistants_of_operators_are_for_all_and_those_of_users_for_themselves(
    owner: Client, stranger: Client, operator: Client
) -> None:
    shared = operator("POST", "/assistants", {"graph_id": "agent", "name": "shared"}).json()["assistant_id"]
    own = owner("POST", "/assistants", {"graph_id": "agent", "name": "own"}).json()["assistant_id"]
    seen = {each["name"] for each in stranger("POST", "/assistants/search", {}).json()}
    assert seen == {"skills-agent", "shared"}
    assert stranger("POST", "/runs/wait", HELLO | {"assistant_id": shared}).json()["answer"]
    assert stranger("POST", "/runs/wait", HELLO | {"assistant_id": own}).status_code == 404
    assert owner("POST", "/runs/wait", HELLO | {"assistant_id": own}).json()["answer"]
    visible = owner("POST", "/assistants/search", {}).json()
    (system,) = [each["assistant_id"] for each in visible if each["metadata"].get("created_by") == "system"]
    for who, which in [(stranger, own), (stranger, shared), (owner, shared), (owner, system)]:
        changed = who("PATCH", f"/assistants/{which}", {"context": {"model": "offline"}})
        assert changed.status_code == 404, changed.text
        assert who("DELETE", f"/assistants/{which}").status_code == 404
    forged = {"config": {"configurable": {"__pregel_resuming": True}}}
    assert owner("PATCH", f"/assistants/{own}", forged).status_code == 403
    assert owner("DELETE", f"/assistants/{own}").status_code == 204


def test_the_store_is_a_users_own_but_for_what_the_agent_keeps_there(
    owner: Client, stranger: Client, operator: Client
) -> None:
    item = {"namespace": ["notes"], "key": "k", "value": {"text": "mine"}}
    assert owner("PUT", "/store/items", item).status_code == 204
    assert owner("GET", "/store/items?namespace=notes&key=k").json()["value"] == {"text": "mine"}
    for who in (stranger, operator):
        assert who("GET", "/store/items?namespace=notes&key=k").json() is None
        assert who("POST", "/store/items/search", {"namespace_prefix": []}).json() == {"items": []}
        assert "alice" not in who("POST", "/store/namespaces", {}).text
    for who in (owner, stranger, operator):
        for name in CLOSED_NAMESPACES:
            place = {"namespace": [name, "journal"]}
            assert who("PUT", "/store/items", item | place).status_code == 403
            assert who("GET", f"/store/items?namespace={name}.journal&key=k").status_code == 403
            assert who("DELETE", "/store/items", {"key": "k"} | place).status_code == 403
            assert who("POST", "/store/items/search", {"namespace_prefix": [name]}).status_code == 403
            assert who("POST", "/store/namespaces", {"prefix": [name]}).status_code == 403
