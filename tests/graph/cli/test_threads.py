"""skills-agent threads: what was said and done can be seen later."""

from pathlib import Path

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine

PLAN = calls(
    call(
        "update_plan",
        goal="Know the rain",
        steps=[{"id": "1", "title": "Add it up", "status": "in_progress"}],
        assumptions=["Millimetres"],
        constraints=[],
    )
)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Keep one thread that is done and one that waits."""
    cli = CommandLine(tmp_path_factory.mktemp("threads"))
    folder = str(cli.write_skill())
    model = cli.script(PLAN, LOAD, RUN, "544 mm.", "You are welcome.")
    cli.run("ask", "How much rain?", "--thread", "rain", "--skills-dir", folder, "--model", model)
    cli.run("resume", "rain", "--approve")
    cli.run("ask", "Thanks", "--thread", "rain")
    cli.run(
        "ask", "Rain again?", "--thread", "open", "--skills-dir", folder, "--model", cli.script(LOAD, RUN)
    )
    return cli


def test_an_empty_workspace_has_no_threads_and_gets_no_database(
    tmp_path: Path,
) -> None:
    cli = CommandLine(tmp_path)
    assert "No threads yet" in cli.run("threads", "list").out
    assert cli.run("threads", "list", "--json").value == []
    assert not cli.state.exists()


def test_threads_are_listed_with_status_turns_and_first_question(cli: CommandLine) -> None:
    rows = cli.run("threads", "list").out.splitlines()
    assert [row.split()[0] for row in rows] == ["THREAD", "open", "rain"]
    assert rows[1].endswith("1      waiting  Rain again?")
    assert rows[2].endswith("2      done     How much rain?")
    told = cli.run("threads", "list", "--json").value
    assert [(each["thread"], each["status"], each["turns"]) for each in told] == [
        ("open", "waiting", 1),
        ("rain", "done", 2),
    ]


def test_a_thread_is_shown_to_a_machine(cli: CommandLine) -> None:
    told = cli.run("threads", "show", "rain", "--json").value
    assert [(said["role"], said["text"]) for said in told["messages"] if said["text"]] == [
        ("user", "How much rain?"),
        ("agent", "544 mm."),
        ("user", "Thanks"),
        ("agent", "You are welcome."),
    ]
    made = [each for said in told["messages"] for each in said["calls"]]
    assert [(each["tool"], each["ruling"]) for each in made] == [
        ("update_plan", "allowed"),
        ("load_skill", "allowed"),
        ("run_script", "approved"),
    ]
    assert [skill["name"] for skill in told["skills"]] == ["rain-gauge"]
    assert told["plan"]["goal"] == "Know the rain"
    assert [grant["decision"] for grant in told["grants"]] == ["approve"]
    assert told["usage"]["turn"] == 2
