"""A real `langgraph dev` of this project, for tests."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
        begin = (
            ("skills-agent", "dev")
            if self.by_launcher
            else ("langgraph", "dev", "--no-reload", "--config", str(PROJECT / self.config))
        )
        command = [
            str(Path(sys.executable).with_name(begin[0])),
            *(*begin[1:], "--no-browser", "--host", "127.0.0.1", "--port", str(self.port)),
        ]
        folder = self.workspace if self.by_launcher else self.folder
        log = (self.folder / "server.log").open("ab")
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        self._wait()
        self.client = get_sync_client(url=self.url)
        return self.client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log
            with (
                contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError),
                urllib.request.urlopen(f"{self.url}/ok", timeout=2) as answer,
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


def pea_server(folder: Path, **options: Any) -> Server:
    """Return a server whose workspace has a table and a skill that counts the 24 peas in it."""
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
    return Server(folder, workspace, **options)
