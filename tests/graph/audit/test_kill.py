"""A run that was killed and resumed reads as one story, wherever the kill came."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.audit.log import RunLog, without_repetitions
from skills_agent.graph.private_files import folder_name
from tests.agents import write_skill

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parent.parent.parent.parent
PROGRAM = Path(__file__).with_name("kill_program.py")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])}


def events(workspace: Path) -> list[dict[str, Any]]:
    log = RunLog(workspace / ".agent" / "runs")
    checked = log.verify(folder_name("thread"))
    assert checked.faults == []
    assert checked.torn == 0
    return list(without_repetitions(map(json.loads, log.lines(folder_name("thread")))))


def told_once(workspace: Path) -> Counter[tuple[str, str, str]]:
    """Count the events of the run, without what is marked as repeated and what says that it went on."""
    return Counter(
        (each["type"], _position(each.get("call_id", "")), each.get("skill", ""))
        for each in events(workspace)
        if each["type"] != "run_resumed" and not each.get("repeated")
    )


def _position(call_id: str) -> str:
    """Return a scripted call's id without the fingerprint of its prompt."""
    return call_id.rpartition("-")[0]


def test_a_run_killed_at_every_write_of_a_checkpoint_reads_as_one_story(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, PROGRAM, str(tmp_path)],
        check=True,
        capture_output=True,
        env=environment(),
        timeout=600,
    )
    workspaces = [each for each in tmp_path.iterdir() if each.name.isdigit()]  # and the home's cache
    whole, *killed = sorted(workspaces, key=lambda each: int(each.name))
    expected = told_once(whole)
    assert not any(each["type"] == "run_resumed" or each.get("repeated") for each in events(whole))
    killed = [each for each in killed if not (each / "not-killed").exists()]
    assert len(killed) > 30
    resumed = 0
    for workspace in killed:
        assert told_once(workspace) == expected, workspace.name
        again = [each for each in events(workspace) if each.get("repeated")]
        assert {each["type"] for each in again} <= {
            "model_called",
            "call_started",
            "call_ended",
            "resource_read",
        }
        before, told = int((workspace / "told-before").read_text()), events(workspace)
        went_on = [number for number, each in enumerate(told) if each["type"] == "run_resumed"]
        assert went_on == ([before] if 0 < before < len(told) else []), workspace.name
        resumed += bool(went_on)
    assert resumed > 20


KILLER = """
import os, pathlib, signal, sys
marker = pathlib.Path("killed")
if not marker.exists():
    marker.touch()
    os.kill(int(sys.argv[1]), signal.SIGKILL)
print("survived")
"""

RUN_OR_RESUME = """
import os, sqlite3, sys
from pathlib import Path
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from skills_agent.graph import build_graph
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from tests.agents import call, calls

workspace, asked = Path(sys.argv[1]), sys.argv[2:] or None
pid_file = workspace / "pid"
if asked:
    pid_file.write_text(str(os.getpid()))
run = call("run_script", skill="killer", path="scripts/run.py", args=[pid_file.read_text()])
model = ScriptedChatModel([calls(call("load_skill", name="killer")), calls(run), "done"])
settings = Settings(
    workspace=workspace, home=workspace, bundled_skills=False, sandbox="off",
    require_approval_for=frozenset(),
)
saver = SqliteSaver(sqlite3.connect(workspace / "threads.sqlite", check_same_thread=False))
graph = build_graph(settings, model=model).compile(checkpointer=saver)
given = {"messages": [HumanMessage("go")]} if asked else None
graph.invoke(given, {"configurable": {"thread_id": "thread"}}, durability="sync")
"""


def test_a_process_killed_in_a_script_leaves_the_beginning_of_the_call_and_the_next_tells_the_rest(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path / ".agent" / "skills", "killer", "Kills.", scripts__run_py=KILLER)
    command = [sys.executable, "-c", RUN_OR_RESUME, str(tmp_path)]
    died = subprocess.run([*command, "go"], env=environment(), timeout=60)
    assert died.returncode == -signal.SIGKILL
    last = events(tmp_path)[-1]
    assert (last["type"], last["tool"]) == ("call_started", "run_script")

    subprocess.run(command, env=environment(), check=True, timeout=60)
    told = events(tmp_path)
    kinds = [each["type"] for each in told]
    assert kinds.count("run_started") == 1
    went_on = kinds.index("run_resumed")
    assert kinds[went_on - 1] == "call_started"
    after = [each for each in told[went_on:] if each.get("call_id") == last["call_id"]]
    assert after
    assert told[went_on]["task"] == last["task"]
