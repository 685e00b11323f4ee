"""skills-agent eval --triggers: which requests a skill is chosen for."""

import json
from pathlib import Path

import pytest

from tests.graph.cli.command_line import CommandLine

SKILL = "---\nname: table-helper\ndescription: Sums the rows of a CSV file per group.\n---\nSum them.\n"
ROWS = [
    {"query": "sum the csv rows of sales.csv per group", "should_trigger": True},
    {"query": "which month was the best one", "should_trigger": True},
    {"query": "tell me a joke", "should_trigger": False},
]


@pytest.fixture
def folder(cli: CommandLine) -> Path:
    """Return the folder of a skill with requests beside it."""
    folder = cli.workspace / ".agent" / "skills" / "table-helper"
    (folder / "evals").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "evals" / "triggers.json").write_text(json.dumps(ROWS))
    return folder


@pytest.mark.usefixtures("folder")
def test_requests_that_go_wrong_are_shown_with_who_got_them_and_why(cli: CommandLine) -> None:
    shown = cli.run("eval", "--triggers", "table-helper").out
    assert shown.startswith("Chosen by words, without a model: table-helper among ")
    assert "WRONG" in shown
    assert "recall     1 of 2 (9% to 91%)" in shown
    assert "lost to" in shown
    value = cli.run("eval", "--triggers", "table-helper", "--json").value
    assert [(each["query"], each["right"]) for each in value["requests"]] == [
        (row["query"], right) for row, right in zip(ROWS, (True, False, True), strict=True)
    ]


def test_requests_come_from_a_file_of_the_persons(cli: CommandLine, folder: Path, tmp_path: Path) -> None:
    (folder / "evals" / "triggers.json").unlink()
    nothing = cli.run("eval", "--triggers", "table-helper")
    assert nothing.code == 2
    assert "should_trigger" in nothing.err
    (file := tmp_path / "requests.json").write_text(json.dumps(ROWS))
    value = cli.run("eval", "--triggers", "table-helper", str(file), "--json").value
    assert len(value["requests"]) == 3


def test_a_skill_that_only_a_person_loads_is_triggered_by_nothing(cli: CommandLine, folder: Path) -> None:
    (folder / "SKILL.md").write_text(SKILL.replace("---\nSum", "disable-model-invocation: true\n---\nSum"))
    done = cli.run("eval", "--triggers", "table-helper")
    assert done.code == 2
    assert "only a person loads table-helper" in done.err
