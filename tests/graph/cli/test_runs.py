"""skills-agent runs: the record of every run, for a person and for a machine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.private_files import folder_name
from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Keep one run that was approved on the command line, and one that waits."""
    folder = str(cli.skills)
    model = cli.script(LOAD, RUN, "544 mm.")
    cli.run("ask", "How much rain?", "--thread", "rain", "--skills-dir", folder, "--model", model)
    cli.run("resume", "rain", "--approve", "--yes", "write")
    cli.run(
        "ask", "Rain again?", "--thread", "open", "--skills-dir", folder, "--model", cli.script(LOAD, RUN)
    )
    return cli


def lines_of(cli: CommandLine, thread: str) -> Path:
    (found,) = (cli.workspace / ".agent" / "runs").glob(f"{thread}.*.jsonl")
    return found


def test_without_runs_nothing_is_made(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    assert "No runs are recorded" in cli.run("runs", "list").out
    assert cli.run("runs", "list", "--json").value == []
    assert cli.run("runs", "verify").code == 0
    assert not (cli.workspace / ".agent").exists()


def test_runs_are_listed_shown_exported_and_verified(cli: CommandLine) -> None:
    rows = cli.run("runs", "list").out.splitlines()
    assert [row.split()[0] for row in rows] == ["RUN", "open.1", "rain.1"]
    assert [row.split()[3] for row in rows[1:]] == ["waiting", "done"]
    assert rows[2].endswith("How much rain?")
    (only,) = cli.run("runs", "list", "--thread", "rain", "--json").value
    assert (only["run"], only["outcome"], only["calls"], only["skills"]) == (
        "rain.1",
        "done",
        1,
        ["rain-gauge"],
    )

    told = cli.run("runs", "show", "rain.1").out
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
    events = cli.run("runs", "show", "rain.1", "--json").value
    assert [events[0]["type"], events[-1]["type"]] == ["run_started", "run_ended"]

    whole = cli.run("runs", "verify")
    assert whole.code == 0
    assert f"rain: {len(events)} lines, as they were written." in whole.out
    assert cli.run("runs", "verify", "rain", "--json").value["rain"]["head"] == events[-1]["hash"]


def test_a_script_that_fails_is_recorded_as_failed_and_its_output_is_shown(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    skills = cli.write_skill()
    (skills / "rain-gauge" / "scripts" / "add_up.py").write_text(
        "print('secret figures')\nraise SystemExit(1)"
    )
    options = ("--skills-dir", str(skills), "--model", cli.script(LOAD, RUN, "It failed."))
    asked = cli.run("ask", "Rain?", "--thread", "rain", *options, "--yes", "run")
    assert "run_script: exit code 1 (" in asked.out
    shown = cli.run("runs", "show", "rain.1").out
    assert "run_script of rain-gauge: failed, exit code 1, isolation " in shown
    assert "secret figures" not in shown
    (ended,) = (
        each
        for each in cli.run("runs", "show", "rain.1", "--json").value
        if each["type"] == "call_ended" and each["tool"] == "run_script"
    )
    assert (ended["status"], ended["error"], ended["exit_code"]) == ("failed", "", 1)


def test_a_changed_record_is_found_and_named(cli: CommandLine) -> None:
    record = lines_of(cli, "rain")
    text = record.read_text()
    record.write_text(text.replace('"answer":"approve"', '"answer":"reject"'))
    found = cli.run("runs", "verify")
    assert found.code == 1
    answered = [json.loads(line)["type"] for line in text.splitlines()].index("approval_answered")
    assert f"rain: line {answered + 1} was changed" in found.out
    assert "open: " in found.out
    shown = cli.run("runs", "show", "rain.1")
    assert "answered: reject" in shown.out
    assert "warning: this record was changed; see skills-agent runs verify rain" in shown.err
    assert cli.run("runs", "verify", "open").code == 0
    *kept, _ = text.splitlines(keepends=True)
    record.write_text("".join(kept))
    assert "1 at its end are missing" in cli.run("runs", "verify", "rain").out
    record.write_text(
        "[]\n{}\nnonsense\n" + '{"type": 5, "run": "rain.1", "yes": 7, "seq": 1, "hash": "x"}\n'
    )
    assert cli.run("runs", "verify", "rain").code == 1
    assert cli.run("runs", "list").code == 0
    assert cli.run("runs", "show", "rain.1").code == 0
    half = '{"type": "%s", "run": "rain.1", "%s": "\\ud800", "seq": 1, "hash": "x"}\n'
    record.write_text(half % ("run_started", "request") + half % ("approval_answered", "answer"))
    assert "U+D800" in cli.run("runs", "show", "rain.1").out
    costs = '{"type": "model_called", "run": "rain.1", "input_tokens": %s, "seq": 1, "hash": "x"}\n'
    record.write_text(costs % ("9" * 4_300) * 2 + costs % -5 + costs % 7)
    (run,) = cli.run("runs", "list", "--thread", "rain", "--json").value
    assert run["input_tokens"] == 7


def test_what_does_not_exist_is_said(cli: CommandLine) -> None:
    for words in (["show", "rain.7"], ["verify", "sun"], ["list", "--thread", "sun"]):
        done = cli.run("runs", *words)
        assert done.code == 1
        assert "There is no record of" in done.err


def test_text_of_a_record_cannot_steer_the_terminal(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    model = cli.script(calls(call("list_dir", path="\x1b[2J\u202e")), "done")
    cli.run("ask", "\x1b]0;title\x07hi", "--thread", "odd", "--model", model)
    told = cli.run("runs", "show", "odd.1").out + cli.run("runs", "list").out
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


def test_the_path_of_the_workspace_is_no_secret(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    model = cli.script(calls(call("list_dir", path=str(cli.workspace))), "done")
    thread = cli.run("ask", "go", "--model", model, "--json", PWD=str(cli.workspace)).value["thread"]

    assert "[secret]" not in cli.run("runs", "show", f"{thread}.1", "--json").out


@pytest.mark.parametrize(
    "forged",
    [
        {"type": 5, "thread": ["rain"], "run": {"a": 1}, "time": 7},
        {"type": "run_started", "thread": "rain", "run": "rain.1", "request": {"a": [1]}, "caller": 7},
        {"type": "call_ended", "thread": "rain", "run": "rain.1", "call_id": []},
        {"type": "call_judged", "thread": "rain", "run": "rain.1", "decision": [], "args": 5},
    ],
)
@pytest.mark.variants
def test_lines_that_a_workspace_brings_along_end_no_command(cli: CommandLine, forged: Any) -> None:
    """Attack: a repository ships `.agent/runs` with lines that no release wrote."""
    line = json.dumps({"seq": 1, "hash": "x", **forged})
    cli.write(f".agent/runs/{folder_name('rain')}.jsonl", f"{line}\n")
    for words in (("list",), ("list", "--json"), ("show", "rain.1"), ("verify",)):
        assert cli.run("runs", *words).code in (0, 1)
