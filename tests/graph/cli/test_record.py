"""skills-agent threads record: the record of every run, for a person and for a machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.private_files import folder_name
from tests.graph.cli.command_line import LOAD, RUN, CommandLine


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Keep one run that was approved on the command line, and one that waits."""
    cli.run("ask", "How much rain?", "--thread", "rain", *cli.plays(LOAD, RUN, "544 mm."))
    cli.run("resume", "rain", "--approve", "--yes", "write")
    cli.run("ask", "Rain again?", "--thread", "open", *cli.plays(LOAD, RUN))
    return cli


def test_runs_are_listed_shown_and_verified(cli: CommandLine) -> None:
    rows = [row.split()[:4:3] for row in cli.run("threads", "record").out.splitlines()]
    assert rows == [["RUN", "CALLS"], ["open.1", "waiting"], ["rain.1", "done"]]
    (only,) = cli.run("threads", "record", "rain", "--json").value
    facts = [only[name] for name in ("run", "outcome", "calls", "skills")]
    assert facts == ["rain.1", "done", 1, ["rain-gauge"]]

    events = cli.run("threads", "record", "rain.1", "--json").value
    kinds = [each["type"] for each in events]
    order = "run_started skill_loaded call_judged approval_asked run_resumed approval_answered"
    assert " ".join(kind for kind in kinds if kind in order) == order
    assert [kind for kind in kinds if kind != "model_called"][-2:] == ["call_ended", "run_ended"]
    told = cli.run("threads", "record", "rain.1").out
    parts = ("How much rain?", "--yes write", "answered: approve: run_script(", "exit code 0, isolation ")
    assert all(part in told for part in parts)

    whole = cli.run("threads", "record", "--verify", "--json")
    assert (whole.code, whole.value["rain"]["head"]) == (0, events[-1]["hash"])
    assert f"rain: {len(events)} lines" in cli.run("threads", "record", "--verify").out
    for words in (["rain.7"], ["ran", "--verify"], ["ran"]):
        done = cli.run("threads", "record", *words)
        assert (done.code, done.out, "Did you mean rain?" in done.err) == (1, "", True)


def test_a_script_that_fails_is_recorded_as_failed_without_its_output(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    script = cli.write_skill() / "rain-gauge" / "scripts" / "add_up.py"
    script.write_text("print('secret figures')\nraise SystemExit(1)")
    options = ("--thread", "rain", "--yes", "run", *cli.plays(LOAD, RUN, "It failed."))
    assert cli.run("threads", "record", "--json").value == []  # before a run nothing is made
    assert (cli.run("threads", "record").code, cli.run("threads", "record", "--verify").code) == (0, 0)
    assert not (cli.workspace / ".agent").exists()
    assert "exit code 1" in cli.run("ask", "Rain?", *options).out
    record = cli.run("threads", "record", "rain.1", "--json")
    (ended,) = [each for each in record.value if each.get("exit_code") is not None]
    assert (ended["status"], ended["exit_code"], "secret" in record.out) == ("failed", 1, False)


def test_a_changed_record_is_found_and_named(cli: CommandLine) -> None:
    (record,) = (cli.workspace / ".agent" / "runs").glob("rain.*.jsonl")
    text = record.read_text()
    record.write_text(text.replace('"answer":"approve"', '"answer":"reject"'))
    answered = [json.loads(line)["type"] for line in text.splitlines()].index("approval_answered")
    found = cli.run("threads", "record", "--verify")
    assert (found.code, f"rain: line {answered + 1} " in found.out, "open: " in found.out) == (1, True, True)
    assert cli.run("threads", "record", "open", "--verify").code == 0
    shown = cli.run("threads", "record", "rain.1")
    assert ("answered: reject" in shown.out, "threads record rain --verify" in shown.err) == (True, True)
    *kept, _ = text.splitlines(keepends=True)
    record.write_text("".join(kept))
    assert cli.run("threads", "record", "rain", "--verify").code == 1
    costs = '{"type": "model_called", "run": "rain.1", "input_tokens": %s, "seq": 1, "hash": "x"}\n'
    record.write_text(costs % ("9" * 4_300) * 2 + costs % -5 + costs % 7)
    (run,) = cli.run("threads", "record", "rain", "--json").value
    assert run["input_tokens"] == 7


FORGED: list[dict[str, Any]] = [
    {"type": 5, "thread": ["rain"], "run": {"a": 1}, "time": 7},
    {"type": "run_started", "thread": "rain", "run": "rain.1", "request": {"a": [1]}, "caller": 7},
    {"type": "run_started", "thread": "rain", "run": "rain.1", "request": "\ud800\x1b\u202e"},
    {"type": "call_ended", "thread": "rain", "run": "rain.1", "call_id": []},
    {"type": "call_judged", "thread": "rain", "run": "rain.1", "decision": [], "args": 5},
]


def test_lines_that_a_workspace_brings_along_end_no_command(tmp_path: Path) -> None:
    """Attack: a repository ships `.agent/runs` with lines that no release wrote."""
    cli = CommandLine(tmp_path)
    for forged in FORGED:
        line = json.dumps({"seq": 1, "hash": "x", **forged})
        cli.write(f".agent/runs/{folder_name('rain')}.jsonl", f"[]\nnonsense\n{line}\n")
        for words in ((), ("--json",), ("rain.1",), ("--verify",)):
            done = cli.run("threads", "record", *words)
            assert (done.code in {0, 1}, {"\x1b", "\u202e"} & {*done.out}) == (True, set()), forged
