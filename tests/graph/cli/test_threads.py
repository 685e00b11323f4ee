"""skills-agent threads list, show and delete: what was said and done can be seen later, until it goes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine

PLAN = calls(
    call("update_plan", goal="Know", steps=[{"id": "1", "title": "Add it up", "status": "in_progress"}])
)


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Keep one thread that is done and one that waits."""
    chosen = cli.plays(PLAN, LOAD, RUN, "544 mm.", "You are welcome.")
    cli.run("ask", "How much rain?", "--thread", "rain", *chosen)
    cli.run("resume", "rain", "--approve")
    cli.run("ask", "Thanks", "--thread", "rain")
    cli.run("ask", "Rain again?", "--thread", "open", *cli.plays(LOAD, RUN, name="o"))
    return cli


def threads(cli: CommandLine) -> list[tuple[str, str, int]]:
    told = cli.run("threads", "list", "--json").value
    return [(each["thread"], each["status"], each["turns"]) for each in told]


def journaled(cli: CommandLine) -> set[str]:
    with closing(sqlite3.connect(cli.state / "journal.sqlite")) as connection:
        return {thread for (thread,) in connection.execute("SELECT DISTINCT thread FROM journal")}


def test_a_workspace_without_threads_gets_no_database(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    assert threads(cli) == []
    assert cli.run("threads", "list").code == 0
    assert cli.run("threads", "delete", "--older-than", "1h", "--json").value == {"threads": []}
    assert not cli.state.exists()


def test_threads_are_listed_and_shown_to_a_person_and_to_a_machine(cli: CommandLine) -> None:
    assert threads(cli) == [("open", "waiting", 1), ("rain", "done", 2)]
    rows = [row.split()[0] for row in cli.run("threads", "list").out.splitlines()]
    assert rows == ["THREAD", "open", "rain"]
    told = cli.run("threads", "show", "rain", "--json").value
    assert cli.said("rain", "user") == ["How much rain?", "Thanks"]
    assert [text for text in cli.said("rain", "agent") if text] == ["544 mm.", "You are welcome."]
    made = [(each["tool"], each["ruling"]) for said in told["messages"] for each in said["calls"]]
    assert made == [("update_plan", "allowed"), ("load_skill", "allowed"), ("run_script", "approved")]
    assert ([skill["name"] for skill in told["skills"]], told["plan"]["goal"]) == (["rain-gauge"], "Know")
    assert ([grant["decision"] for grant in told["grants"]], told["usage"]["turn"]) == (["approve"], 2)
    shown = cli.run("threads", "show", "rain").out
    assert all(text in shown for text in ("How much rain?", "544 mm.", told["grants"][0]["id"], "Add it up"))
    assert cli.run("threads", "show").out == cli.run("threads", "show", "open").out
    assert "Did you mean rain?" in cli.run("threads", "show", "rian").err


def test_what_each_model_of_a_thread_took_is_shown(cli: CommandLine) -> None:
    assert "  scripted:" not in cli.run("threads", "show", "rain").out  # one model
    cli.run("ask", "Snow?", "--thread", "rain", "--model", cli.script(*["None."] * 6, name="other"))
    told = cli.run("threads", "show", "rain", "--json").value["usage"]
    both = {name.rpartition("/")[2]: counts for name, counts in told["by_model"].items()}
    assert {name: counts["model_calls"] for name, counts in both.items()} == {"other": 1, "replies.json": 5}
    assert sum(counts["input_tokens"] for counts in both.values()) == told["thread"]["input_tokens"]
    line = f"other: 1 model call, {both['other']['input_tokens']:,} tokens in, "
    assert line in cli.run("threads", "show", "rain").out


def test_a_thread_goes_with_its_journal_and_its_record_stays(cli: CommandLine) -> None:
    (record,) = (cli.workspace / ".agent" / "runs").glob("open.*.jsonl")
    assert journaled(cli) == {"rain"}
    assert cli.run("threads", "delete", "rain", "open").code == 1  # nobody to ask
    assert len(threads(cli)) == 2
    deleted = cli.run("threads", "delete", "rain", "open", "--yes", "--json").value
    assert deleted["threads"] == ["rain", "open"]
    assert (threads(cli), journaled(cli), record.exists()) == ([], set(), True)


def test_what_is_old_goes_and_what_waits_or_was_cut_off_stays(cli: CommandLine) -> None:
    with closing(sqlite3.connect(cli.state / "threads.sqlite")) as connection, connection:
        # As a kill leaves it: the newest checkpoint has a node to run.
        newest = "SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = 'rain'"
        connection.execute(f"DELETE FROM checkpoints WHERE checkpoint_id = ({newest})")
    assert [status for _, status, _ in threads(cli)] == ["waiting", "unfinished"]
    assert cli.run("threads", "delete", "--older-than", "1h", "--yes", "--json").value["threads"] == []


@pytest.mark.slow
def test_a_person_is_asked_before_a_thread_goes(cli: CommandLine) -> None:
    for answer, code, left in (("n", 1, 2), ("y", 0, 1)):
        seen = cli.on_terminal("threads", "delete", "rain", answers=[("rain?", f"{answer}\n")])
        assert (seen.code, len(threads(cli))) == (code, left)
