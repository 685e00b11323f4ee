"""Every command that the README and the tutorial show, run in an empty folder as it stands."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine import needs_part
from tests.openai_server import KEY, Completion, OpenAIServer, openai_server

pytestmark = pytest.mark.slow
PROJECT = Path(__file__).parents[2]
IN_A_CLONE = (". .venv/bin/activate", "pip install dist/skills_agent-0.1.0-py3-none-any.whl")
"""`make demo` and .ci/wheel, which the build runs, do what these need and do."""
BASH = """
set -e
skills-agent() {  # as a person at a terminal: approves what is asked
    command skills-agent "$@" || { [ $? = 3 ] && command skills-agent resume --approve; }
}
"""


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        server.respond = lambda _: Completion("South sold more.")
        yield server


def commands_of(page: str) -> str:
    text = (PROJECT / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def run(commands: str, place: Path, model: OpenAIServer) -> str:
    home, folder = place / "home", place / "empty"
    home.mkdir()
    folder.mkdir()
    mine = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home)}
    process = subprocess.Popen(
        ["bash", "-c", BASH + commands.replace("sk-...", KEY)],
        cwd=folder,
        env={**mine, "LANG": "C.UTF-8", "OPENAI_BASE_URL": model.base_url, "LANGGRAPH_CLI_NO_ANALYTICS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, printed
    assert "Traceback" not in printed, printed
    return printed


def test_the_readme(tmp_path: Path, model: OpenAIServer) -> None:
    lines = commands_of("README.md").splitlines()
    steps = (PROJECT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    made = [line.split("#")[0].strip() for line in lines if line.startswith("make ")]
    assert made
    assert {f"step {each}" for each in made} <= {*steps}
    here = [line for line in lines if not line.startswith(("make ", *IN_A_CLONE))]
    assert len(lines) - len(here) == len(made) + len(IN_A_CLONE)
    printed = run("\n".join(here), tmp_path, model)
    assert "total of amount: 7" in printed
    assert printed.count("South sold more.") == 2
    assert "north,3" in str(model.requests[1].body["messages"])


@needs_part("evals")
@needs_part("pages")
@needs_part("server")
def test_the_tutorial(tmp_path: Path, model: OpenAIServer) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    tutorial = commands_of("docs/tutorial.md")
    printed = run(
        tutorial.replace("localhost:2025", f"localhost:{port}").replace("--port 2025", f"--port {port}"),
        tmp_path,
        model,
    )
    before, served, after = printed.partition('{"ok":true}')
    assert served
    assert "late-orders  2      0       0" in before  # chosen for both requests, and missed for none
    assert before.count("1002 (Bob): 17 days") == 2
    assert "1002 (Bob): 17 days" in after
    assert "Send a token" in after
    assert (tmp_path / "empty" / "shop" / "report.html").is_file()
