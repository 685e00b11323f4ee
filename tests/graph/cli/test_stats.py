"""skills-agent skills stats: what became of skills, for a person, for a machine, and as a page."""

from pathlib import Path

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine

SEARCH = calls(call("search_skills", query="rain and stations"))


@pytest.fixture
def cli(cli: CommandLine) -> CommandLine:
    """Keep a run that used a skill after a search, and one that loaded it for nothing."""
    for thread, replies in (("used", (SEARCH, LOAD, RUN, "544 mm.")), ("idle", (LOAD, "No idea."))):
        about = ("--thread", thread, "--skills-dir", str(cli.skills), "--model", cli.script(*replies))
        assert cli.run("ask", "How much rain?", *about, "--yes", "run,write").code == 0
    return cli


def test_skills_are_counted_over_the_runs_of_the_workspace(cli: CommandLine) -> None:
    told = cli.run("skills", "stats", "--skills-dir", str(cli.skills), "--json").value
    (gauge,) = [each for each in told["skills"] if each["name"] == "rain-gauge"]
    counted = {key: gauge[key] for key in ("offered", "found", "loaded", "used", "ignored", "runs", "failed")}
    assert counted == {"offered": 2, "found": 1, "loaded": 2, "used": 1, "ignored": 1, "runs": 1, "failed": 0}
    assert told["turns"] == 2
    assert told["damaged_lines"] == 0
    assert gauge["tokens"] > 0
    assert sorted(gauge["threads"]) == ["idle", "used"]
    assert "text-stats" in told["never_loaded"]


def test_an_unknown_name_names_those_that_are_known(cli: CommandLine) -> None:
    done = cli.run("skills", "stats", "rain-gauges")
    assert done.code == 1
    assert "rain-gauge" in done.err


def test_damaged_lines_are_passed_over_and_counted(cli: CommandLine) -> None:
    (file,) = (cli.workspace / ".agent" / "runs").glob("used.*.jsonl")
    file.write_bytes(b'{"not": "a record"}\nno json\n' + file.read_bytes())
    done = cli.run("skills", "stats", "--skills-dir", str(cli.skills))
    assert "2 turns on record." in done.out
    assert "2 lines of the records cannot be read" in done.err


@pytest.mark.parametrize(("since", "turns"), [("1h", 2), ("2w", 2), ("2099-01-01", 0), ("1999-12-31", 2)])
@pytest.mark.variants
def test_only_runs_since_then_count(cli: CommandLine, since: str, turns: int) -> None:
    assert cli.run("skills", "stats", "--since", since, "--json").value["turns"] == turns


@pytest.mark.parametrize("since", ["yesterday", "7", "d7", "2026-13-01"])
@pytest.mark.variants
def test_a_time_that_is_none_says_how_one_is_written(cli: CommandLine, since: str) -> None:
    done = cli.run("skills", "stats", "--since", since)
    assert done.code == 2
    assert "use 7d, 12h, 2w or a date" in done.err


def test_without_runs_nothing_is_counted(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    assert cli.run("skills", "stats").out.startswith("0 turns on record.\n\nNever loaded\n")
    assert not (cli.workspace / ".agent").exists()
