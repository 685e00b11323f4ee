"""skills-agent threads prune and delete: old threads go, open questions stay."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.threads.threads import ThreadSummary, choose_threads
from tests.graph.cli.command_line import LOAD, RUN, CommandLine


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Keep two threads that are done, then one that waits."""
    folder = str(cli.skills)
    model = cli.script(LOAD, "Rain is measured in millimetres.", "You are welcome.")
    for thread in ("first", "second"):
        cli.run("ask", "What is rain?", "--thread", thread, "--skills-dir", folder, "--model", model)
    waiting = cli.script(LOAD, RUN, "544 mm.", name="waiting.json")
    cli.run("ask", "How much rain?", "--thread", "open", "--skills-dir", folder, "--model", waiting)
    return cli


def threads(cli: CommandLine) -> list[str]:
    return [each["thread"] for each in cli.run("threads", "list", "--json").value]


def test_the_newest_threads_are_kept_and_one_that_waits_whatever_its_age(cli: CommandLine) -> None:
    record = cli.write(".agent/runs/first.jsonl", '{"run": 1}\n')
    cli.run("ask", "Thanks", "--thread", "first")
    told = cli.run("threads", "prune", "--keep", "1", "--dry-run", "--json").value
    assert (told["threads"], told["kept_open"], told["dry_run"]) == (["second"], ["open"], True)
    assert threads(cli) == ["first", "open", "second"]
    told = cli.run("threads", "prune", "--keep", "1", "--yes").out
    assert "Removed 1 thread: second." in told
    assert "Not done, so kept: open." in told
    assert threads(cli) == ["first", "open"]
    assert record.read_text() == '{"run": 1}\n'
    assert cli.run("resume", "open", "--approve").code == 0


def test_by_age_only_threads_go_that_did_not_move_for_so_long() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def line(thread: str, days: int, status: Any = "done") -> ThreadSummary:
        return ThreadSummary(thread, (now - timedelta(days=days)).isoformat(), 1, status, "?")

    lines = [
        line("new", 1),
        line("edge", 30),
        line("old", 31),
        line("cut", 90, "unfinished"),
        line("older", 99),
    ]
    month = timedelta(days=30)
    assert choose_threads(lines, None, month, now)[:2] == (("old", "older"), ("cut",))
    assert choose_threads(lines, 3, month, now)[:2] == (("older",), ("cut",))
    assert choose_threads(lines, 4, None, now)[:2] == (("older",), ())
    assert choose_threads([ThreadSummary("x", "", 1, "done", "?")], None, month, now)[0] == ()


def test_a_thread_that_was_cut_off_is_not_pruned(cli: CommandLine) -> None:
    # As a kill leaves it: the newest checkpoint has a node to run.
    with closing(sqlite3.connect(cli.state / "threads.sqlite")) as connection, connection:
        connection.execute(
            "DELETE FROM checkpoints WHERE thread_id = 'second' AND checkpoint_id = "
            "(SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = 'second')"
        )
    assert "second" in cli.run("threads", "prune", "--keep", "1", "--yes", "--json").value["kept_open"]
    assert cli.run("threads", "delete", "second", "--yes").code == 0
    assert "second" not in threads(cli)


def journaled(cli: CommandLine) -> dict[str, int]:
    """Return how many entries the journal has of each thread: its effects, and that it has any."""
    with closing(sqlite3.connect(cli.state / "journal.sqlite")) as connection:
        return dict(connection.execute("SELECT thread, count(*) FROM journal GROUP BY thread").fetchall())


@pytest.fixture
def measured(cli: CommandLine) -> CommandLine:
    """Run a script in two of the threads, twice in the first one."""
    model = cli.script(LOAD, RUN, "544 mm.", RUN, "Still 544 mm.", name="measured.json")
    for thread, question in (("one", "How much?"), ("one", "And now?"), ("two", "How much?")):
        folder = str(cli.skills)
        asked = ("ask", question, "--thread", thread, "--skills-dir", folder, "--model", model)
        assert cli.run(*asked, "--yes", "run").code == 0
    assert journaled(cli) == {"one": 3, "two": 2}
    return cli


def test_the_journal_of_a_thread_goes_with_it(measured: CommandLine) -> None:
    assert measured.run("threads", "delete", "one", "--yes").code == 0
    assert journaled(measured) == {"two": 2}
    assert measured.run("threads", "prune", "--older-than", "1h", "--keep", "1", "--yes").code == 0
    assert journaled(measured) == {"two": 2}
    assert measured.run("ask", "Hi", "--thread", "new", "--model", measured.script("Hello.")).code == 0
    assert measured.run("threads", "prune", "--keep", "1", "--yes").code == 0
    assert journaled(measured) == {}


def test_nothing_goes_without_a_yes(cli: CommandLine) -> None:
    for words in (("prune", "--keep", "1"), ("delete", "first")):
        refused = cli.run("threads", *words)
        assert (refused.code, "say --yes" in refused.err) == (2, True)
    assert sorted(threads(cli)) == ["first", "open", "second"]


@pytest.mark.slow
def test_a_person_is_asked_before_a_thread_goes(cli: CommandLine) -> None:
    seen = cli.on_terminal("threads", "delete", "first", answers=[("Delete thread first?", "n\n")])
    assert (seen.code, "error: nothing was done" in seen.out) == (1, True)
    assert sorted(threads(cli)) == ["first", "open", "second"]
    seen = cli.on_terminal("threads", "delete", "first", answers=[("Delete thread first?", "y\n")])
    assert (seen.code, "Removed thread first" in seen.out) == (0, True)
    assert sorted(threads(cli)) == ["open", "second"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("prune",), 2, "say what stays"),
        (("prune", "first", "--keep", "1"), 2, "unexpected extra argument"),
        (("prune", "--older-than", "30 days"), 2, "such as 30d"),
        (("delete", "nope", "--yes"), 1, "There is no thread 'nope'"),
    ],
)
def test_what_cannot_be_pruned_is_told(tmp_path: Path, words: tuple[str, ...], code: int, told: str) -> None:
    cli = CommandLine(tmp_path)
    cli.run("ask", "Hi", "--thread", "first", "--model", cli.script("Hello."))
    finished = cli.run("threads", *words)
    assert (finished.code, told in finished.err) == (code, True), finished.err


def test_an_empty_workspace_has_nothing_to_prune(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    assert cli.run("threads", "prune", "--keep", "1").out == "Removed nothing.\n"
    assert json.loads(cli.run("threads", "prune", "--keep", "1", "--json").out)["threads"] == []
    assert not cli.state.exists()
