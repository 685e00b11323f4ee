"""skills-agent skills list --stats: what became of skills, counted over records of runs."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.graph.cli.stats import count_thread
from tests.graph.cli.command_line import LOAD, RUN, CommandLine

LOADED = {"type": "skill_loaded", "skill": "a", "characters": 400}
UNLOADED = {"type": "skill_unloaded", "skill": "a"}
ASKED = {"type": "model_called"}
RAN = {"type": "call_ended", "skill": "a", "exit_code": 1}
READ = {"type": "resource_read", "skill": "a"}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([LOADED, ASKED, RAN, RAN, ASKED], {"loaded": 1, "used": 1, "tokens": 200}),
        ([LOADED, READ], {"loaded": 1, "used": 1}),
        ([LOADED, {**RAN, "reused": "2026-11-23T10:00:00Z"}], {"loaded": 1}),
        ([LOADED, {**RAN, "skill": "b"}], {"loaded": 1}),
        ([LOADED, UNLOADED, ASKED, RAN], {"loaded": 1}),
        ([LOADED, RAN, UNLOADED, LOADED, RAN], {"loaded": 2, "used": 2}),
    ],
)
def test_a_load_is_used_once_and_costs_until_it_is_unloaded(
    records: list[dict[str, Any]], expected: dict[str, int]
) -> None:
    counts: dict[str, Counter[str]] = {}
    count_thread(records, counts)
    assert dict(counts["a"]) == expected


VALUES = st.none() | st.text() | st.integers() | st.lists(st.text() | st.integers())
KINDS = ("run_started", "skill_loaded", "skill_unloaded", "call_ended", "model_called", "resource_read")
FIELDS = ("skill", "characters", "exit_code", "reused")


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), VALUES))))
def test_no_record_stops_the_counting(records: list[tuple[str, dict[str, Any]]]) -> None:
    counts: dict[str, Counter[str]] = {}
    count_thread([{"type": kind, **fields} for kind, fields in records], counts)
    assert all(each["used"] <= each["loaded"] for each in counts.values())


def test_skills_are_counted_over_the_runs_of_the_workspace(cli: CommandLine) -> None:
    for thread, replies in (("used", (LOAD, RUN, "544 mm.")), ("idle", (LOAD, "No idea."))):
        about = ("--thread", thread, "--skills-dir", str(cli.skills), "--model", cli.script(*replies))
        assert cli.run("ask", "How much rain?", *about, "--yes", "run,write").code == 0
    told = cli.run("skills", "list", "--stats", "--skills-dir", str(cli.skills), "--json").value
    (gauge,) = [each for each in told["skills"] if each["name"] == "rain-gauge"]
    assert (gauge["loaded"], gauge["used"], told["damaged_lines"]) == (2, 1, 0)
    assert gauge["tokens"] > 0
    assert "text-stats" in told["never_loaded"]
    (file,) = (cli.workspace / ".agent" / "runs").glob("used.*.jsonl")
    file.write_bytes(b'{"not": "a record"}\nno json\n' + file.read_bytes())
    done = cli.run("skills", "list", "--stats", "--skills-dir", str(cli.skills))
    assert "rain-gauge" in done.out
    assert "2 lines of the records cannot be read" in done.err


def test_without_runs_nothing_is_counted(cli: CommandLine) -> None:
    assert cli.run("skills", "list", "--stats").out.startswith(
        "No run on record loaded a skill.\n\nNever loaded\n"
    )
    assert not (cli.workspace / ".agent").exists()
