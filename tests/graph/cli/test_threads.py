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


def test_a_thread_is_shown_with_receipts_calls_decisions_plan_and_cost(cli: CommandLine) -> None:
    told = cli.run("threads", "show", "rain").out
    lines = told.splitlines()
    assert lines[0].startswith("Thread rain: done, 2 turns, ")
    assert "you: How much rain?" in lines
    assert "    Loaded rain-gauge: 3 lines, 1 script." in lines
    assert "    all stations: 544 mm" in lines
    assert "(approved)" in told
    assert "agent: You are welcome." in lines
    assert "[>] 1. Add it up" in lines
    assert "Skills: rain-gauge (configured)" in lines
    assert "5 model calls, 2 tool calls, 1 script run" in told
    # What the model read of the skill is not what a person reads.
    assert "and answer with its figures" not in told


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


def test_an_open_call_is_shown_as_open(cli: CommandLine) -> None:
    told = cli.run("threads", "show", "open").out
    assert "(open)" in told
    assert told.startswith("Thread open: waiting, 1 turn")
