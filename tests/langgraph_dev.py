"""A real `langgraph dev` of this project, for tests."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from tests.agents import write_skill

PROJECT = Path(__file__).resolve().parent.parent
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
    config: str = "langgraph.json"
    more: dict[str, str] = field(default_factory=dict)
    """Variables of its environment."""
    by_launcher: bool = False
    """Whether it is started by `skills-agent dev`, typed in the workspace."""
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
            **self.more,
        }
        own = ("langgraph", "dev", "--no-reload", "--config", str(PROJECT / self.config))
        program, *words = ("skills-agent", "dev") if self.by_launcher else own
        command: list[str | Path] = [
            Path(sys.executable).with_name(program),
            *words,
            "--no-browser",
            "--host",
            "127.0.0.1",
        ]
        folder = self.workspace if self.by_launcher else self.folder
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)], cwd=folder, env=environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._wait()
        self.client = get_sync_client(url=self.url)
        return self.client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def thread(self) -> str:
        """Make a thread."""
        assert self.client
        return str(self.client.threads.create()["thread_id"])

    def run(self, thread: str, text: str = "", *, decision: str = "", **more: Any) -> Any:
        """Say something in a thread, decide about the question that is open there, or let it go on."""
        assert self.client
        if decision:
            more["command"] = {"resume": {"decisions": [{"type": decision}]}}
        return self.client.runs.wait(thread, "agent", input=ask(text) if text else None, **more)

    def state(self, thread: str) -> Any:
        """Return the state of a thread."""
        assert self.client
        return self.client.threads.get_state(thread)

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/ok", timeout=2).status_code == 200:
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


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """Run a server while the block runs."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


def ask(text: str) -> dict[str, Any]:
    """Return what a person says, as a client sends it."""
    return {"messages": [{"role": "user", "content": text}]}


def write_tokens(path: Path, *users: str, operators: Sequence[str] = ()) -> Path:
    """Write a file of tokens: that of `bob` is `of bob`."""
    path.touch(0o600)
    with path.open("a") as file:
        for name in (*users, *operators):
            digest = sha256(f"of {name}".encode()).hexdigest()
            file.write(f'["{name}"]\nsha256 = "{digest}"\noperator = {str(name in operators).lower()}\n')
    return path


def pea_server(folder: Path, **options: Any) -> Server:
    """Return a server whose workspace has a table and a skill that counts the 24 peas in it."""
    workspace = folder / "work"
    workspace.mkdir()
    (workspace / "harvest.csv").write_text("pod,peas\na,7\nb,9\nc,8\n")
    told = "Counts the peas in a CSV file of pods."
    write_skill(workspace / "given", "pea-census", told, BODY, scripts__census_py=SCRIPT)
    return Server(folder, workspace, **options)
