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
    cli.write(".agent/skills/table-helper/evals/triggers.json", json.dumps(ROWS))
    return cli.write(".agent/skills/table-helper/SKILL.md", SKILL).parent


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
    file = (folder / "evals" / "triggers.json").rename(tmp_path / "requests.json")
    nothing = cli.run("eval", "--triggers", "table-helper")
    assert (nothing.code, "should_trigger" in nothing.err) == (2, True)
    value = cli.run("eval", "--triggers", "table-helper", str(file), "--json").value
    assert len(value["requests"]) == 3
    (folder / "SKILL.md").write_text(SKILL.replace("---\nSum", "disable-model-invocation: true\n---\nSum"))
    done = cli.run("eval", "--triggers", "table-helper", str(file))
    assert (done.code, "only a person loads table-helper" in done.err) == (2, True)
