"""Loaded skills that change or go between two processes: `on_change` on the command line."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.threads import Threads
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


def told_of_change(cli: CommandLine) -> list[Any]:
    """Return what the newest step knows of loaded skills that are different on disk."""
    with Threads.open(Settings.load(cli.workspace)) as threads:
        changed: list[Any] = threads.snapshot("rain").values["catalog"]["changed"]
        return [(each["name"], each["change"]) for each in changed]


def test_pin_keeps_the_text_of_the_thread_and_says_so(cli: CommandLine) -> None:
    cli.write_skill(CHANGED)
    said = cli.run("ask", "Again?", "--thread", "rain")
    assert (said.code, said.err) == (0, "")
    assert "discover  rain-gauge: changed on disk since this thread loaded it" in said.out
    assert "loaded anew" not in said.out
    assert "answer with its figures" in shown(cli)["skills"][0]["instructions"]
    assert told_of_change(cli) == [("rain-gauge", "changed")]


@pytest.mark.parametrize("on_change", ["pin", "refresh", "ask"])
@pytest.mark.variants
def test_a_deleted_skill_stays_loaded_and_is_told(cli: CommandLine, on_change: str) -> None:
    shutil.rmtree(cli.skills / "rain-gauge")
    said = cli.run("ask", "Again?", "--thread", "rain", SKILLS_AGENT_ON_CHANGE=on_change)
    assert said.code == 0
    assert "discover  rain-gauge: gone from disk; this thread keeps what it loaded" in said.out
    assert "answer with its figures" in shown(cli)["skills"][0]["instructions"]
    assert told_of_change(cli) == [("rain-gauge", "gone")]


def test_refresh_loads_the_new_text_at_the_next_turn_and_says_what_changed(cli: CommandLine) -> None:
    cli.write_skill(CHANGED)
    said = cli.run("ask", "Again?", "--thread", "rain", SKILLS_AGENT_ON_CHANGE="refresh")
    assert said.code == 0
    assert "discover  rain-gauge: changed on disk since this thread loaded it" in said.out
    assert "load      loaded rain-gauge from configured (" in said.out
    assert "asked for by the operator" in said.out
    (skill,) = shown(cli)["skills"]
    assert ("answer in INCHES" in skill["instructions"], skill["asked_by"]) == (True, "operator")


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


def test_a_reload_loads_the_version_that_was_asked_about_also_when_the_folder_is_gone(
    cli: CommandLine,
) -> None:
    cli.write_skill(CHANGED)
    assert cli.run("ask", "Again?", "--thread", "rain", SKILLS_AGENT_ON_CHANGE="ask").code == 3
    shutil.rmtree(cli.skills / "rain-gauge")
    answered = cli.run("resume", "rain", "--approve", "--json", SKILLS_AGENT_ON_CHANGE="ask")
    assert (answered.code, answered.value["loaded"]) == (0, ["rain-gauge"])
    assert "INCHES" in shown(cli)["skills"][0]["instructions"]


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
