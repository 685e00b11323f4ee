"""A real `langgraph dev`, driven by langgraph-sdk, with a skill and a file that it has never seen."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.private_files import folder_name
from tests.agents import write_skill

pytestmark = [pytest.mark.server, pytest.mark.slow]

PROJECT = Path(__file__).resolve().parent.parent.parent
SECONDS_TO_START = 90

SCRIPT = """
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
print("pods:", len(rows))
print("peas in all:", sum(int(row["peas"]) for row in rows))
"""

BODY = """
# Pea census
Run `python scripts/census.py FILE` on the CSV file and report its lines.
"""


@dataclass
class Server:
    """A `langgraph dev` process that can be stopped and started again on the same folder."""

    folder: Path
    workspace: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None)
    client: SyncLangGraphClient | None = field(default=None)

    def start(self) -> SyncLangGraphClient:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("LANGSMITH", "LANGCHAIN", "OPENAI"))
        } | {
            "HOME": str(self.folder),
            "SKILLS_AGENT_WORKSPACE": str(self.workspace),
            "SKILLS_AGENT_SKILLS_DIRS": str(self.workspace / "given"),
            "LANGGRAPH_NO_VERSION_CHECK": "true",
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            "LANGSMITH_TRACING": "false",
        }
        command = [
            str(Path(sys.executable).with_name("langgraph")),
            *("dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(self.port)),
            *("--config", str(PROJECT / "langgraph.json")),
        ]
        log = (self.folder / "server.log").open("ab")
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        self._wait()
        self.client = get_sync_client(url=f"http://127.0.0.1:{self.port}")
        return self.client

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log
            with (
                contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError),
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ok", timeout=2) as answer,
            ):
                if answer.status == 200:
                    return
            time.sleep(0.2)
        raise AssertionError(self.log)

    def stop(self) -> None:
        """End the server as a person does, with Ctrl-C; its state is written then."""
        if self.client is not None:
            self.client.http.client.close()
        if self.process is None or self.process.poll() is not None:
            return
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-6000:]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    workspace = folder / "work"
    workspace.mkdir()
    (workspace / "harvest.csv").write_text("pod,peas\na,7\nb,9\nc,8\n")
    write_skill(
        workspace / "given",
        "pea-census",
        "Counts the peas in a CSV file of pods.",
        BODY,
        scripts__census_py=SCRIPT,
    )
    server = Server(folder, workspace)
    yield server
    server.stop()


def ask(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_the_server_shows_the_graph_asks_survives_a_restart_and_answers(server: Server) -> None:
    client = server.start()
    (assistant,) = client.assistants.search(graph_id="agent")
    drawn = client.assistants.get_graph("agent")
    assert {node["id"] for node in drawn["nodes"]} == {
        *(
            "__start__",
            "discover",
            "summarize",
            "select",
            "load",
            "decide",
            "gate",
            "approve",
            "act",
            "answer",
            "__end__",
        )
    }
    schemas: Any = client.assistants.get_schemas(assistant["assistant_id"])
    assert set(schemas["input_schema"]["properties"]) == {"messages", "skills"}
    assert set(schemas["output_schema"]["properties"]) == {"messages", "answer", "loaded", "usage"}
    form = schemas["context_schema"]["properties"]
    assert form["model"]["title"] == "Model"
    assert all(each["title"] and each["description"] for each in form.values())

    thread = client.threads.create()["thread_id"]
    question = ask("How many peas are in harvest.csv?")
    modes = ["updates", "values", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"]
    events: dict[str, list[Any]] = {}
    for part in client.runs.stream(thread, "agent", input=question, stream_mode=modes):  # type: ignore[arg-type]
        events.setdefault(part.event, []).append(part.data)
    assert "error" not in events, server.log
    assert {"updates", "values", "tasks", "checkpoints", "debug", "events"} <= set(events)
    told = [event["type"] for event in events["custom"]]
    assert told[0] == "skills_agent.run_started"
    assert told[-1] == "skills_agent.approval_asked"
    state: Any = client.threads.get_state(thread)
    (interrupt,) = state["interrupts"]
    (action,) = interrupt["value"]["action_requests"]
    assert action["name"] == "run_script"
    assert action["args"]["args"] == ["harvest.csv"]

    server.stop()
    client = server.start()
    state = client.threads.get_state(thread)
    assert sorted(state["values"]["skills_loaded"]) == ["pea-census"]
    (interrupt,) = state["interrupts"]
    resume = {interrupt["id"]: {"decisions": [{"type": "approve"}]}}
    result = client.runs.wait(thread, "agent", command={"resume": resume})
    assert isinstance(result, dict)
    assert "24" in result["answer"]
    assert "3" in result["answer"]
    assert result["loaded"] == ["pea-census"]
    assert set(result) == {"messages", "answer", "loaded", "usage"}
    log = RunLog(server.workspace / ".agent" / "runs")
    assert log.verify(folder_name(thread)).faults == []
    recorded = [json.loads(line) for line in log.lines(folder_name(thread))]
    assert [f"skills_agent.{event['type']}" for event in recorded[: len(told)]] == told
    assert [event["exit_code"] for event in recorded if "exit_code" in event] == [0]
    assert recorded[-1]["type"] == "run_ended"

    rejected = client.threads.create()["thread_id"]
    client.runs.wait(rejected, "agent", input=question)
    decision = {"decisions": [{"type": "reject", "message": "not now"}]}
    refused = client.runs.wait(rejected, "agent", command={"resume": decision})
    assert isinstance(refused, dict)
    assert "24" not in refused["answer"]

    lowered = client.threads.create()["thread_id"]
    plain = client.runs.wait(lowered, "agent", input=question, context={"enable_skills": False})
    assert isinstance(plain, dict)
    assert plain["loaded"] == []


def test_a_thread_is_copied_and_goes_on_from_an_earlier_step_over_the_sdk(server: Server) -> None:
    client = server.client or server.start()
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "agent", input=ask("How many peas are in harvest.csv?"))
    client.runs.wait(thread, "agent", command={"resume": {"decisions": [{"type": "approve"}]}})
    history: Any = client.threads.get_history(thread, limit=100)
    done, asked = history[0], next(each for each in history if "approve" in each["next"])
    assert (done["values"]["loaded"], done["next"]) == (["pea-census"], [])
    assert (asked["values"]["grants"], asked["values"]["usage"]["this_turn"]["script_runs"]) == ({}, 0)

    typed_as_none: Any = client.threads
    copied = typed_as_none.copy(thread)["thread_id"]
    copy: Any = client.threads.get_state(copied)
    assert copy["values"] == done["values"]
    then: Any = client.threads.get_history(copied, limit=100)
    assert [each["values"] for each in then] == [each["values"] for each in history]

    # The question of that step is open again; what the first branch did is not in this one.
    again: Any = client.runs.wait(copied, "agent", input=None, checkpoint=asked["checkpoint"])
    assert again["__interrupt__"]
    state: Any = client.threads.get_state(copied)
    for channel in ("skills_loaded", "grants", "usage"):
        assert state["values"][channel] == asked["values"][channel]
    said = [[(each["id"], each["content"]) for each in of["values"]["messages"]] for of in (state, asked)]
    assert said[0] == said[1]
    refused: Any = client.runs.wait(copied, "agent", command={"resume": {"decisions": [{"type": "reject"}]}})
    assert "24" not in refused["answer"]

    record = done["values"]["skills_loaded"]["pea-census"]
    tombstone = {"pea-census": {**record, "unloaded": True, "order": record["order"] + 1}}
    client.threads.update_state(
        thread, {"skills_loaded": tombstone}, as_node="answer", checkpoint=done["checkpoint"]
    )
    left: Any = client.runs.wait(thread, "agent", input=ask("Thank you."))
    assert left["loaded"] == []
