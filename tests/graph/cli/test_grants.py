"""What a person grants beyond one call, and each of several open calls."""

import json

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine
from tests.machine import needs_bwrap

ANSWER = "544 mm."
HOST = "api.example.invalid"
WRITE = call("write_file", path="a.txt", content="x")


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Stop a thread at a question that the tests leave open."""
    cli = CommandLine(tmp_path_factory.mktemp("waiting"))
    cli.write_skill()
    wait(cli, LOAD, RUN, ANSWER)
    return cli


def wait(cli: CommandLine, *replies: object) -> None:
    assert cli.run("ask", "Rain?", *cli.plays(*replies), "--thread", "rain").code == 3


def grants(cli: CommandLine) -> list[tuple[str, bool]]:
    told = cli.run("threads", "show", "rain", "--json").value["grants"]
    return [(each["scope"], each["revoked"]) for each in told]


def revoke(cli: CommandLine) -> str:
    """Revoke the newest grant, and return its id."""
    decision: str = cli.run("threads", "show", "rain", "--json").value["grants"][-1]["id"]
    assert cli.run("threads", "revoke", "rain", decision).code == 0
    return decision


def test_a_person_grants_a_skill_and_revokes_it(cli: CommandLine) -> None:
    wait(cli, LOAD, RUN, RUN, "one", RUN, "two", RUN, "three")
    assert cli.run("resume", "rain", "--approve", "--always", "skill").code == 0
    assert cli.run("ask", "Again?", "--thread", "rain").code == 0
    decision = revoke(cli)
    assert grants(cli) == [("skill", True)]
    shown = cli.run("threads", "show", "rain").out
    assert f"{decision}  run_script: approve (revoked)" in shown
    assert cli.run("threads", "record", "rain.2").out.count(f"revoked what was granted with {decision}") == 1
    assert cli.run("ask", "Again?", "--thread", "rain").code == 3
    assert grants(cli) == [("skill", True)]


def test_a_grant_is_revoked_while_a_question_stays_open(cli: CommandLine) -> None:
    wait(cli, LOAD, RUN, calls(call("list_dir"), WRITE), "one")
    assert cli.run("resume", "rain", "--approve", "--always", "skill").code == 3
    told = f"revoked what was granted with {revoke(cli)}"
    assert grants(cli) == [("skill", True)]
    assert cli.run("threads", "record", "rain.1").out.count(told) == 1
    assert cli.run("threads", "record", "--json").value[0]["outcome"] == "waiting"
    done = cli.run("resume", "rain", "--approve", "--json").value
    assert (done["answer"], done["usage"]["thread"]["tool_calls"]) == ("one", 3)
    assert (cli.workspace / "a.txt").exists()
    assert cli.run("threads", "revoke", "rain", "nothing").code == 1
    assert cli.run("threads", "show", "rain", "--steps").out.count(told) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--approve", "--always", "run_script(scripts/other.py)"],
        ["--message", "no question of the agent"],
        ["--decisions", "no json"],
        ["--decisions", '[{"type": "reject"}, {"type": "reject"}]'],
        ["--decisions", '[{"type": "approve", "grant": {"scope": "pattern", "pattern": "Ba*"}}]'],
        ["--decisions", "[]", "--approve"],
    ],
    ids=" ".join,
)
def test_an_answer_that_does_not_fit_runs_nothing_and_leaves_the_question_open(
    waiting: CommandLine, options: list[str]
) -> None:
    if options[0] == "--decisions":
        options = ["--decisions", str(waiting.write("decisions.json", options[1])), *options[2:]]
    done = waiting.run("resume", "rain", *options)
    assert (done.code, "all stations" in done.out, done.err[:7]) == (2, False, "error: ")
    assert waiting.run("threads", "list", "--json").value[0]["status"] == "waiting"
    (run,) = waiting.run("threads", "record", "--json").value
    assert run["outcome"] == "waiting"
    if "grant" in str(options):  # what was read, and not taken
        record = waiting.run("threads", "record", "rain.1", "--json").value
        assert record[-1]["type"] == "answer_refused"


def test_each_open_call_gets_its_own_decision(cli: CommandLine) -> None:
    wait(cli, LOAD, calls(RUN["tool_calls"][0], WRITE), ANSWER)
    granted = {"type": "approve", "grant": {"scope": "skill"}}
    decisions = cli.write("decisions.json", json.dumps([granted, {"type": "reject", "message": "No."}]))
    done = cli.run("resume", "rain", "--decisions", str(decisions), "--json").value
    answers = [(each["tool"], each["decision"]) for each in done["calls"]]
    assert answers == [("run_script", "allow"), ("write_file", "deny")]
    assert not (cli.workspace / "a.txt").exists()
    assert sorted(grants(cli)) == [("call", False), ("skill", False)]


@needs_bwrap
def test_what_the_network_was_opened_to_is_shown_and_revoked(cli: CommandLine) -> None:
    asks = calls({**RUN["tool_calls"][0], "args": {**RUN["tool_calls"][0]["args"], "network": [HOST]}})
    wait(cli, LOAD, asks, asks, "done", asks, "end")
    assert cli.run("resume", "rain", "--approve", "--always", "thread").code == 0
    assert f"network: {HOST}" in cli.run("threads", "show", "rain").out
    for each in cli.run("threads", "show", "rain", "--json").value["grants"]:
        assert cli.run("threads", "revoke", "rain", each["id"]).code == 0
    asked = cli.run("ask", "Again?", "--thread", "rain")
    assert (asked.code, HOST in asked.out) == (3, True)
