"""Loaded skills that change or go between two processes: `on_change` on the command line."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.graph.cli.command_line import LOAD, RAIN_SKILL, RUN, CommandLine

CHANGED = RAIN_SKILL.replace("answer with its figures", "answer in INCHES")


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Keep a thread that has loaded a skill."""
    model = cli.script(LOAD, "Loaded.", "Second.", "Third.", "Fourth.")
    cli.run("ask", "Load it", "--thread", "rain", "--skills-dir", str(cli.skills), "--model", model)
    return cli


def shown(cli: CommandLine) -> Any:
    return cli.run("threads", "show", "rain", "--json").value


@pytest.mark.parametrize(("answer", "text"), [("--approve", "INCHES"), ("--reject", "its figures")])
def test_ask_waits_for_a_person_who_answers_with_another_command(
    cli: CommandLine, answer: str, text: str
) -> None:
    cli.write_skill(CHANGED)
    asked = cli.run("ask", "Again?", "--thread", "rain", SKILLS_AGENT_ON_CHANGE="ask")
    assert (asked.code, "changed on disk" in asked.out) == (3, True)
    assert "its figures" in shown(cli)["skills"][0]["instructions"]
    answered = cli.run("resume", "rain", answer, "--json", SKILLS_AGENT_ON_CHANGE="ask")
    assert (answered.code, answered.value["answer"]) == (0, "Second.")
    assert text in shown(cli)["skills"][0]["instructions"]


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_what_was_approved_runs_whatever_becomes_of_the_folder_before_the_answer(
    tmp_path: Path, how: str
) -> None:
    cli = CommandLine(tmp_path)
    folder, model = str(cli.write_skill()), cli.script(LOAD, RUN, "544 mm.")
    assert cli.run("ask", "Run", "--thread", "rain", "--skills-dir", folder, "--model", model).code == 3
    script = cli.skills / "rain-gauge" / "scripts" / "add_up.py"
    if how == "gone":
        shutil.rmtree(cli.skills / "rain-gauge")
    else:
        script.write_text("open('harm.txt', 'w')\n")
    answered = cli.run("resume", "rain", "--approve", "--json")
    assert (answered.code, answered.value["answer"]) == (0, "544 mm.")
    (run,) = [
        each for said in shown(cli)["messages"] for each in said["calls"] if each["tool"] == "run_script"
    ]
    assert "all stations: 544 mm" in run["result"]
    assert not (cli.workspace / "harm.txt").exists()
