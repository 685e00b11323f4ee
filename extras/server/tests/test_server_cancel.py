"""A real `langgraph dev` whose runs are cancelled: scripts end, and nothing starts beside what still ran."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import SyncLangGraphClient

from tests.agents import call, calls, write_skill
from tests.langgraph_dev import Server
from tests.stubborn import processes_with, stubborn_script

pytestmark = [pytest.mark.server, pytest.mark.slow]

GO: Any = {"messages": [{"role": "user", "content": "go"}]}
APPROVE: Any = {"resume": {"decisions": [{"type": "approve"}]}}
SECONDS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    workspace = folder / "work"
    script = stubborn_script(f"daemon-in-{workspace}")
    write_skill(workspace / "given", "count", "Counts.", scripts__run_py=script)
    run = call("run_script", skill="count", path="scripts/run.py", args=["one"])
    replies = [calls(call("load_skill", name="count")), calls(run), "done", "later", "even later"]
    (folder / "replies.json").write_text(json.dumps(replies))
    more = {"SKILLS_AGENT_MODEL": f"scripted:{folder}/replies.json", "SKILLS_AGENT_SANDBOX": "off"}
    server = Server(folder, workspace, more=more)
    server.start()
    yield server
    server.stop()
    assert processes_with(str(workspace)) == []


@pytest.fixture
def client(server: Server) -> SyncLangGraphClient:
    """Return a client of the server, in whose workspace nothing has started yet."""
    started(server).unlink(missing_ok=True)
    assert server.client
    return server.client


def started(server: Server) -> Path:
    return server.workspace / "started-one"


def wait_until(server: Server, holds: Any) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, server.log
        time.sleep(0.02)


def approved_run(server: Server, client: SyncLangGraphClient) -> tuple[str, str]:
    """Return a thread and its run, whose script has started after an approval."""
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=GO)
    run = client.runs.create(thread, "agent", command=APPROVE)["run_id"]
    wait_until(server, started(server).exists)
    return thread, run


def told(client: SyncLangGraphClient, thread: str) -> list[str]:
    state: Any = client.threads.get_state(thread)
    return [each["content"] for each in state["values"]["messages"] if each.get("name") == "run_script"]


def check_cancelled(texts: list[str]) -> None:
    (text,) = texts
    assert "cancelled after" in text
    assert "half of it" in text


def test_an_interrupted_run_is_over_when_its_script_has_ended_and_goes_on_with_its_output(
    server: Server, client: SyncLangGraphClient
) -> None:
    thread, run = approved_run(server, client)
    client.runs.cancel(thread, run, wait=True, action="interrupt")
    wait_until(server, lambda: not processes_with(str(server.workspace / "given")))
    wait_until(server, lambda: client.threads.get(thread)["status"] != "busy")
    assert client.runs.get(thread, run)["status"] == "interrupted"
    state: Any = client.threads.get_state(thread)
    assert (state["next"], state["interrupts"]) == (["act"], [])
    result: Any = client.runs.wait(thread, "agent", input=None)
    assert result["answer"] == "done"
    check_cancelled(told(client, thread))
    assert started(server).read_text() == "x"


def test_the_journal_knows_what_was_rolled_back(server: Server, client: SyncLangGraphClient) -> None:
    thread, run = approved_run(server, client)
    client.runs.cancel(thread, run, wait=True, action="rollback")
    wait_until(server, lambda: client.threads.get(thread)["status"] == "idle")
    assert processes_with(str(server.workspace / "given")) == []
    result: Any = client.runs.wait(thread, "agent", input=None)
    assert result["answer"] == "done"
    check_cancelled(told(client, thread))
    assert started(server).read_text() == "x"


@pytest.mark.parametrize("way", ["wait", "join"])
def test_a_client_that_goes_away_cancels_its_run(
    server: Server, client: SyncLangGraphClient, way: str
) -> None:
    """As a reload of the page in Agent Chat UI."""
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=GO)
    wish = {"assistant_id": "agent", "command": APPROVE, "on_disconnect": "cancel"}
    url = f"{server.url}/threads/{thread}/runs"
    if way == "wait":
        wish["stream_mode"] = "values"
    with httpx.Client(timeout=SECONDS) as page:
        if way == "join":
            run = page.post(url, json=wish).json()["run_id"]
            leaving = page.stream("GET", f"{url}/{run}/stream", params={"cancel_on_disconnect": True})
        else:
            leaving = page.stream("POST", f"{url}/{way}", json=wish)
        with leaving:
            wait_until(server, started(server).exists)
    wait_until(server, lambda: client.threads.get(thread)["status"] != "busy")
    wait_until(server, lambda: not processes_with(str(server.workspace / "given")))
    result: Any = client.runs.wait(thread, "agent", input=None)
    assert result["answer"] == "done"
    check_cancelled(told(client, thread))
    assert started(server).read_text() == "x"


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
def test_a_run_that_takes_the_place_of_another_begins_when_the_script_has_ended(
    server: Server, client: SyncLangGraphClient, strategy: Any
) -> None:
    thread, _ = approved_run(server, client)
    result: Any = client.runs.wait(thread, "agent", input=GO, multitask_strategy=strategy)
    wait_until(server, lambda: not processes_with(str(server.workspace / "given")))
    if strategy == "interrupt":
        check_cancelled(told(client, thread))
        assert result["answer"] == "done"
    assert started(server).read_text() == "x"


def test_an_enqueued_run_waits_for_the_cancelled_one(server: Server, client: SyncLangGraphClient) -> None:
    thread, run = approved_run(server, client)
    later = client.runs.create(thread, "agent", input=None, multitask_strategy="enqueue")["run_id"]
    client.runs.cancel(thread, run)
    result: Any = client.runs.join(thread, later)
    assert result["answer"] == "done"
    check_cancelled(told(client, thread))
    assert started(server).read_text() == "x"


def test_an_approval_beside_a_cancelled_run_starts_nothing(
    server: Server, client: SyncLangGraphClient
) -> None:
    thread, run = approved_run(server, client)
    client.runs.cancel(thread, run)
    for _ in range(3):
        client.runs.wait(thread, "agent", command=APPROVE, raise_error=False)
        assert started(server).read_text() == "x"
    client.runs.wait(thread, "agent", input=None)
    check_cancelled(told(client, thread))
    assert started(server).read_text() == "x"


def test_what_is_rolled_back_whole_cancelled_or_stopped_with_its_server_runs_once(
    tmp_path: Path, server: Server
) -> None:
    """Of a server that asks nobody, and gives each run an event loop of its own."""
    workspace = tmp_path / "work"
    write_skill(workspace / "given", "count", "Counts.", scripts__run_py=stubborn_script(f"in-{workspace}"))
    more = {"SKILLS_AGENT_REQUIRE_APPROVAL_FOR": "write", "BG_JOB_ISOLATED_LOOPS": "true"}
    own = Server(tmp_path, workspace, more={**server.more, **more})
    client = own.start()

    def begin() -> tuple[str, str]:
        started(own).unlink(missing_ok=True)
        thread = client.threads.create()["thread_id"]
        run = client.runs.create(thread, "agent", input=GO)["run_id"]
        wait_until(own, started(own).exists)
        return thread, run

    def check_once(thread: str, text: str = "") -> None:
        (said,) = told(client, thread)
        assert said.startswith(text)
        check_cancelled([said])
        assert started(own).read_text() == "x"

    try:
        thread, run = begin()
        client.runs.cancel(thread, run, wait=True, action="rollback")
        wait_until(own, lambda: client.threads.get(thread)["status"] == "idle")
        state: Any = client.threads.get_state(thread)
        assert not state["values"]
        client.runs.wait(thread, "agent", input=GO)
        check_once(thread, "[This call ran before")

        thread, run = begin()
        client.runs.cancel(thread, run)
        client.runs.wait(thread, "agent", input=None)
        check_once(thread)

        thread, _ = begin()
        own.stop()
        assert processes_with(str(workspace)) == []
        client = own.start()
        result: Any = client.runs.wait(thread, "agent", input=None)
        assert result["answer"] == "done"
        check_once(thread)
    finally:
        own.stop()
