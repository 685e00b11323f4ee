"""A real `langgraph dev` whose runs are cancelled: scripts end, and nothing starts beside what still ran."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import SyncLangGraphClient

from tests.agents import call, calls, write_skill
from tests.langgraph_dev import Server, ask, running
from tests.stubborn import processes_with, stubborn_script
from tests.waiting import until

pytestmark = [pytest.mark.server, pytest.mark.slow]

GO: Any = ask("go")
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
    with running(Server(folder, workspace, more=more)) as server:
        yield server
    assert processes_with(str(workspace)) == []


@pytest.fixture
def client(server: Server) -> SyncLangGraphClient:
    """Return a client of the server, in whose workspace nothing has started yet."""
    started(server).unlink(missing_ok=True)
    assert server.client
    return server.client


def started(server: Server) -> Path:
    return server.workspace / "started-one"


def approved_run(server: Server, client: SyncLangGraphClient) -> tuple[str, str]:
    """Return a thread and its run, whose script has started after an approval."""
    thread = server.thread()
    server.run(thread, "go")
    run = client.runs.create(thread, "agent", command=APPROVE)["run_id"]
    until(started(server).exists)
    return thread, run


def check_once(server: Server, thread: str, begins: str = "") -> None:
    """Assert that the script was cancelled, ran no second time, and that its output is there."""
    messages = server.state(thread)["values"]["messages"]
    (text,) = [each["content"] for each in messages if each.get("name") == "run_script"]
    assert text.startswith(begins)
    assert "cancelled after" in text
    assert "half of it" in text
    assert started(server).read_text() == "x"


def check_goes_on(server: Server, thread: str) -> None:
    assert server.run(thread)["answer"] == "done"
    check_once(server, thread)


def test_an_interrupted_run_is_over_when_its_script_has_ended_and_goes_on_with_its_output(
    server: Server, client: SyncLangGraphClient
) -> None:
    thread, run = approved_run(server, client)
    client.runs.cancel(thread, run, wait=True, action="interrupt")
    until(lambda: not processes_with(str(server.workspace / "given")))
    until(lambda: client.threads.get(thread)["status"] != "busy")
    assert client.runs.get(thread, run)["status"] == "interrupted"
    state = server.state(thread)
    assert (state["next"], state["interrupts"]) == (["act"], [])
    check_goes_on(server, thread)


def test_the_journal_knows_what_was_rolled_back(server: Server, client: SyncLangGraphClient) -> None:
    thread, run = approved_run(server, client)
    client.runs.cancel(thread, run, wait=True, action="rollback")
    until(lambda: client.threads.get(thread)["status"] == "idle")
    assert processes_with(str(server.workspace / "given")) == []
    check_goes_on(server, thread)


@pytest.mark.parametrize("way", ["wait", "join"])
def test_a_client_that_goes_away_cancels_its_run(
    server: Server, client: SyncLangGraphClient, way: str
) -> None:
    """As a reload of the page in Agent Chat UI."""
    thread = server.thread()
    server.run(thread, "go")
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
            until(started(server).exists)
    until(lambda: client.threads.get(thread)["status"] != "busy")
    until(lambda: not processes_with(str(server.workspace / "given")))
    check_goes_on(server, thread)


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
def test_a_run_that_takes_the_place_of_another_begins_when_the_script_has_ended(
    server: Server, client: SyncLangGraphClient, strategy: Any
) -> None:
    thread, _ = approved_run(server, client)
    result: Any = client.runs.wait(thread, "agent", input=GO, multitask_strategy=strategy)
    until(lambda: not processes_with(str(server.workspace / "given")))
    if strategy == "interrupt":
        assert result["answer"] == "done"
        check_once(server, thread)
    assert started(server).read_text() == "x"


def test_an_enqueued_run_waits_for_the_cancelled_one(server: Server, client: SyncLangGraphClient) -> None:
    thread, run = approved_run(server, client)
    later = client.runs.create(thread, "agent", input=None, multitask_strategy="enqueue")["run_id"]
    client.runs.cancel(thread, run)
    result: Any = client.runs.join(thread, later)
    assert result["answer"] == "done"
    check_once(server, thread)


def test_an_approval_beside_a_cancelled_run_starts_nothing(
    server: Server, client: SyncLangGraphClient
) -> None:
    thread, run = approved_run(server, client)
    client.runs.cancel(thread, run)
    for _ in range(3):
        client.runs.wait(thread, "agent", command=APPROVE, raise_error=False)
        assert started(server).read_text() == "x"
    check_goes_on(server, thread)


def test_what_is_rolled_back_whole_cancelled_or_stopped_with_its_server_runs_once(
    tmp_path: Path, server: Server
) -> None:
    """Of a server that asks nobody, and gives each run an event loop of its own."""
    workspace = tmp_path / "work"
    write_skill(workspace / "given", "count", "Counts.", scripts__run_py=stubborn_script(f"in-{workspace}"))
    more = {"SKILLS_AGENT_REQUIRE_APPROVAL_FOR": "write", "BG_JOB_ISOLATED_LOOPS": "true"}
    own = Server(tmp_path, workspace, more={**server.more, **more})

    def begin() -> tuple[str, str]:
        started(own).unlink(missing_ok=True)
        thread = own.thread()
        assert own.client
        run = own.client.runs.create(thread, "agent", input=GO)["run_id"]
        until(started(own).exists)
        return thread, run

    with running(own):
        client: Any = own.client
        thread, run = begin()
        client.runs.cancel(thread, run, wait=True, action="rollback")
        until(lambda: client.threads.get(thread)["status"] == "idle")
        assert not own.state(thread)["values"]
        own.run(thread, "go")
        check_once(own, thread, "[This call ran before")
        thread, run = begin()
        client.runs.cancel(thread, run)
        check_goes_on(own, thread)
        thread, _ = begin()
        own.stop()
        assert processes_with(str(workspace)) == []
        own.start()
        check_goes_on(own, thread)
