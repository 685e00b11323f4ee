"""A run that was killed and resumed reads as one story, wherever the kill came."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from skills_agent.graph import build_graph
from skills_agent.graph.audit.log import RunLog, without_repetitions
from skills_agent.graph.models.scripted import ScriptedChatModel, ScriptEntry
from skills_agent.graph.private_files import folder_name
from skills_agent.graph.settings import Settings
from tests.agents import call, calls, write_skill
from tests.crash.points import Points
from tests.crash.scenario import KillingSqlite
from tests.forked import run_forked

pytestmark = pytest.mark.slow

CONFIG: Any = {"configurable": {"thread_id": "thread"}}
REPLIES: list[ScriptEntry] = [
    calls(call("load_skill", name="alpha"), call("load_skill", name="beta")),
    calls(call("read_resource", skill="alpha", path="a.txt"), call("list_dir"), call("no_such_tool")),
    "done",
]
OF_A_KILLER: list[ScriptEntry] = [
    calls(call("load_skill", name="killer")),
    calls(call("run_script", skill="killer", path="scripts/run.py")),
    "done",
]
KILLER = """
import os, pathlib, signal
agent = pathlib.Path("agent")
if agent.exists():
    pid = int(agent.read_text())
    agent.unlink()
    os.kill(pid, signal.SIGKILL)
"""


def run(workspace: Path, target: int = 0, replies: list[ScriptEntry] = REPLIES) -> None:
    """Begin the run or go on with what is kept of it, to its end or to a kill point."""
    free: dict[str, Any] = {"bundled_skills": False, "sandbox": "off", "require_approval_for": frozenset()}
    settings = Settings(workspace=workspace, home=workspace.parent, **free)
    with KillingSqlite.from_conn_string(str(workspace / "threads.sqlite")) as saver:
        assert isinstance(saver, KillingSqlite)
        saver.points, saver.is_slow = Points(workspace, target), False
        graph = build_graph(settings, model=ScriptedChatModel(replies)).compile(checkpointer=saver)
        # Before the first checkpoint nothing of the request is kept: it is asked again.
        asked: Any = None if saver.get_tuple(CONFIG) else {"messages": [HumanMessage("go", id="m")]}
        graph.invoke(asked, CONFIG, durability="sync")


def events(workspace: Path) -> list[dict[str, Any]]:
    log = RunLog(workspace / ".agent" / "runs")
    checked = log.verify(folder_name("thread"))
    assert (checked.faults, checked.torn) == ([], 0)
    return list(without_repetitions(map(json.loads, log.lines(folder_name("thread")))))


def told_once(workspace: Path) -> Counter[tuple[str, str, str]]:
    """Count the events of the run, without what is marked as repeated and what says that it went on."""
    return Counter(
        # A scripted call's id ends with the fingerprint of its prompt.
        (each["type"], each.get("call_id", "").rpartition("-")[0], each.get("skill", ""))
        for each in events(workspace)
        if each["type"] != "run_resumed" and not each.get("repeated")
    )


def test_a_run_killed_around_writes_of_checkpoints_reads_as_one_story(tmp_path: Path) -> None:
    """Of each three kill points one, before writes and after them; the first run is killed nowhere."""
    point = resumed = 0
    expected: Counter[tuple[str, str, str]] = Counter()
    while True:
        workspace = tmp_path / str(point)
        for name in ("alpha", "beta"):
            write_skill(workspace / ".agent" / "skills", name, "Does it.", a_txt="text")
        killed = run_forked(run, workspace, point)
        if not point:
            expected = told_once(workspace)
            assert expected.total() == len(events(workspace))  # nothing is repeated
        elif not killed:
            break
        else:
            before = sum(file.read_bytes().count(b"\n") for file in workspace.glob(".agent/runs/*.jsonl"))
            assert not run_forked(run, workspace)
            assert told_once(workspace) == expected, point
            told = events(workspace)
            again = {each["type"] for each in told if each.get("repeated")}
            assert again <= {"model_called", "call_started", "call_ended", "resource_read"}
            went_on = [number for number, each in enumerate(told) if each["type"] == "run_resumed"]
            assert went_on == ([before] if 0 < before < len(told) else []), point
            resumed += bool(went_on)
        point += 3 if point else 1
    assert (point > 30, resumed > 6) == (True, True)


def test_a_process_killed_in_a_script_leaves_the_beginning_of_the_call_and_the_next_tells_the_rest(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path / ".agent" / "skills", "killer", "Kills.", scripts__run_py=KILLER)

    def begin() -> None:
        (tmp_path / "agent").write_text(str(os.getpid()))
        run(tmp_path, replies=OF_A_KILLER)

    assert run_forked(begin) == -signal.SIGKILL
    assert not run_forked(run, tmp_path, 0, OF_A_KILLER)
    told = events(tmp_path)
    kinds = [each["type"] for each in told]
    assert kinds.count("run_started") == 1
    went_on = kinds.index("run_resumed")
    last = told[went_on - 1]
    assert (last["type"], last["tool"]) == ("call_started", "run_script")
    assert told[went_on]["task"] == last["task"]
    assert any(each.get("call_id") == last["call_id"] for each in told[went_on:])
