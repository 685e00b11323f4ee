"""A run that was killed and resumed reads as one story, wherever the kill came."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.audit.log import RunLog, without_repetitions
from skills_agent.graph.private_files import folder_name

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parent.parent.parent.parent
PROGRAM = Path(__file__).with_name("kill_program.py")


def run_program(kills: str, folder: Path) -> None:
    path = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, PROGRAM, kills, folder],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=600,
    )


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
    run_program("points", tmp_path)
    whole = tmp_path / "0"
    expected = told_once(whole)
    assert not any(each["type"] == "run_resumed" or each.get("repeated") for each in events(whole))
    killed = [each.parent for each in tmp_path.glob("*/told-before")]
    resumed = 0
    for workspace in killed:
        assert told_once(workspace) == expected, workspace.name
        again = {each["type"] for each in events(workspace) if each.get("repeated")}
        assert again <= {"model_called", "call_started", "call_ended", "resource_read"}
        before, told = int((workspace / "told-before").read_text()), events(workspace)
        went_on = [number for number, each in enumerate(told) if each["type"] == "run_resumed"]
        assert went_on == ([before] if 0 < before < len(told) else []), workspace.name
        resumed += bool(went_on)
    assert (len(killed) > 10, resumed > 6) == (True, True)


def test_a_process_killed_in_a_script_leaves_the_beginning_of_the_call_and_the_next_tells_the_rest(
    tmp_path: Path,
) -> None:
    run_program("script", tmp_path)
    told = events(tmp_path)
    kinds = [each["type"] for each in told]
    assert kinds.count("run_started") == 1
    went_on = kinds.index("run_resumed")
    last = told[went_on - 1]
    assert (last["type"], last["tool"]) == ("call_started", "run_script")
    assert told[went_on]["task"] == last["task"]
    assert any(each.get("call_id") == last["call_id"] for each in told[went_on:])
