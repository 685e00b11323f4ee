"""skills-agent runs: the record of every run, for a person and for a machine."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.graph.cli_desk import LOAD, RUN, Desk, call, calls


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """Keep one run that was approved on the command line, and one that waits."""
    folder = str(desk.skills)
    model = desk.script(LOAD, RUN, "544 mm.")
    desk.run("ask", "How much rain?", "--thread", "rain", "--skills-dir", folder, "--model", model)
    desk.run("resume", "rain", "--approve", "--yes", "write")
    desk.run(
        "ask", "Rain again?", "--thread", "open", "--skills-dir", folder, "--model", desk.script(LOAD, RUN)
    )
    return desk


def lines_of(desk: Desk, thread: str) -> Path:
    (found,) = (desk.workspace / ".agent" / "runs").glob(f"{thread}.*.jsonl")
    return found


def test_without_runs_nothing_is_made(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert "No runs are recorded" in desk.run("runs", "list").out
    assert desk.run("runs", "list", "--json").value == []
    assert desk.run("runs", "verify").code == 0
    assert not (desk.workspace / ".agent").exists()


def test_runs_are_listed_shown_exported_and_verified(desk: Desk) -> None:
    rows = desk.run("runs", "list").out.splitlines()
    assert [row.split()[0] for row in rows] == ["RUN", "open.1", "rain.1"]
    assert [row.split()[3] for row in rows[1:]] == ["waiting", "done"]
    assert rows[2].endswith("How much rain?")
    (only,) = desk.run("runs", "list", "--thread", "rain", "--json").value
    assert (only["run"], only["outcome"], only["calls"], only["skills"]) == (
        "rain.1",
        "done",
        1,
        ["rain-gauge"],
    )

    told = desk.run("runs", "show", "rain.1").out
    assert told.startswith("Run rain.1: done, ")
    order = [
        "Asked: How much rain?",
        "loaded rain-gauge from configured",
        "ask (policy): run_script(",
        "asked a person: run_script(",
        "went on: by somebody unnamed, model scripted:",
        "--yes write",
        "answered: approve: run_script(",
        "starts run_script of rain-gauge",
        "run_script of rain-gauge: ok, exit code 0, isolation ",
        "ended, done; the answer has 7 bytes",
    ]
    places = [told.index(text) for text in order]
    assert places == sorted(places)
    events = desk.run("runs", "show", "rain.1", "--json").value
    assert [events[0]["type"], events[-1]["type"]] == ["run_started", "run_ended"]

    exported = desk.run("runs", "export", "rain.1").out
    assert [json.loads(line) for line in exported.splitlines()] == events
    assert desk.run("runs", "export", "--thread", "rain", "-o", "out.jsonl").out == ""
    out = desk.workspace / "out.jsonl"
    assert out.read_text() == lines_of(desk, "rain").read_text()
    assert out.stat().st_mode & 0o777 == 0o600
    assert len(desk.run("runs", "export").out.splitlines()) > len(events)

    whole = desk.run("runs", "verify")
    assert whole.code == 0
    assert f"rain: {len(events)} lines, as they were written." in whole.out
    assert desk.run("runs", "verify", "rain", "--json").value["rain"]["head"] == events[-1]["hash"]


def test_progress_the_record_and_the_steps_of_a_thread_say_the_same(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    options = ("--skills-dir", str(desk.write_skill()), "--model", desk.script(LOAD, RUN, "544 mm."))
    asked = desk.run("ask", "Rain?", "--thread", "rain", *options, "--yes", "run")
    shown = desk.run("runs", "show", "rain.1").out
    steps = desk.run("threads", "show", "rain", "--steps").out
    lines = asked.out.partition("\n\n")[0].splitlines()
    for node in ("discover", "decide", "load", "answer"):
        for line in (line for line in lines if line.startswith(node)):
            assert line in shown
            without_time = re.sub(r", [\d.]+ s(?=;|$)", "", line.removeprefix(node).strip())
            assert f"      {without_time}\n" in steps
    assert "run_script of rain-gauge: ok, exit code 0" in asked.out
    assert "run_script of rain-gauge: ok, exit code 0" in steps


def test_a_changed_record_is_found_and_named(desk: Desk) -> None:
    record = lines_of(desk, "rain")
    text = record.read_text()
    record.write_text(text.replace('"answer":"approve"', '"answer":"reject"'))
    found = desk.run("runs", "verify")
    assert found.code == 1
    answered = [json.loads(line)["type"] for line in text.splitlines()].index("approval_answered")
    assert f"rain: line {answered + 1} was changed" in found.out
    assert "open: " in found.out
    shown = desk.run("runs", "show", "rain.1")
    assert "answered: reject" in shown.out
    assert "warning: this record was changed; see skills-agent runs verify rain" in shown.err
    assert desk.run("runs", "verify", "open").code == 0
    *kept, _ = text.splitlines(keepends=True)
    record.write_text("".join(kept))
    assert "1 at its end are missing" in desk.run("runs", "verify", "rain").out
    record.write_text(
        "[]\n{}\nnonsense\n" + '{"type": 5, "run": "rain.1", "yes": 7, "seq": 1, "hash": "x"}\n'
    )
    assert desk.run("runs", "verify", "rain").code == 1
    assert desk.run("runs", "list").code == 0
    assert desk.run("runs", "show", "rain.1").code == 0


def test_what_does_not_exist_is_said(desk: Desk) -> None:
    for words in (["show", "rain.7"], ["export", "rain.7"], ["verify", "sun"], ["list", "--thread", "sun"]):
        done = desk.run("runs", *words)
        assert done.code == 1
        assert "There is no record of" in done.err
    assert desk.run("runs", "export", "rain.1", "--thread", "rain").code == 2
    assert desk.run("runs", "export", "-o", "no/such/folder/x").code == 1


def test_text_of_a_record_cannot_steer_the_terminal(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    model = desk.script(calls(call("list_dir", path="\x1b[2J\u202e")), "done")
    desk.run("ask", "\x1b]0;title\x07hi", "--thread", "odd", "--model", model)
    told = desk.run("runs", "show", "odd.1").out + desk.run("runs", "list").out
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_records_are_read_without_langgraph() -> None:
    probe = (
        "import sys, skills_agent.graph.cli.run_records, "
        "skills_agent.graph.cli.runs; "
        "print(sorted(m for m in sys.modules if m.startswith(('lang', 'pydantic'))))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
