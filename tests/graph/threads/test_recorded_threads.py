"""Threads that an older release wrote go on with today's code (tests/recorded/record.py makes them)."""

import json
import shutil
from pathlib import Path

import pytest

from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import make_state_folder
from tests.graph.cli.command_line import CommandLine
from tests.recorded.record import LOAD, RUN

RECORDED = sorted((Path(__file__).parents[2] / "recorded").glob("*.sqlite"))
assert RECORDED


@pytest.fixture(params=RECORDED, ids=lambda path: path.stem)
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> CommandLine:
    """Give the recorded threads to a workspace whose skills are not where they were."""
    cli = CommandLine(tmp_path)
    folder = make_state_folder(Settings(workspace=cli.workspace, home=cli.home))
    shutil.copy(request.param, folder / "threads.sqlite")
    cli.write("replies.json", json.dumps([LOAD, RUN, "544 mm.", "You are welcome."]))
    return cli


def test_recorded_threads_are_listed_and_shown(cli: CommandLine) -> None:
    told = {each["thread"]: each["status"] for each in cli.run("threads", "list", "--json").value}
    assert told == {"done": "done", "waiting": "waiting"}
    shown = cli.run("threads", "show", "done").out
    assert "Loaded rain-gauge: 3 lines, 1 script." in shown
    assert "all stations: 544 mm" in shown
    steps = cli.run("threads", "show", "done", "--steps", "--json").value["steps"]
    assert ["load"] in [step["nodes"] for step in steps]


def test_a_recorded_thread_takes_another_turn_with_what_it_loaded(cli: CommandLine) -> None:
    said = cli.run("ask", "Thanks", "--thread", "done", "--json")
    assert (said.code, said.value["answer"]) == (0, "You are welcome."), said.err
    assert said.value["loaded"] == ["rain-gauge"]
    assert said.value["usage"]["turn"] == 2
    assert cli.said("done", "user") == ["How much rain?", "Thanks"]
    (skill,) = cli.run("threads", "show", "done", "--json").value["skills"]
    assert "Run `scripts/add_up.py FILE`" in skill["instructions"]


@pytest.mark.parametrize("answer", ["--approve", "--reject"])
def test_the_open_question_of_a_recorded_thread_is_answered(cli: CommandLine, answer: str) -> None:
    answered = cli.run("resume", "waiting", answer, "--json")
    assert (answered.code, answered.value["answer"]) == (0, "544 mm."), answered.err
    said = cli.run("threads", "show", "waiting", "--json").value["messages"]
    (call,) = (call for each in said for call in each["calls"] if call["tool"] == "run_script")
    assert call["ruling"] == {"--approve": "approved", "--reject": "rejected"}[answer]
    assert call["result"]


@pytest.mark.parametrize("thread", ["done", "waiting"])
def test_a_recorded_thread_can_be_forked_and_deleted(cli: CommandLine, thread: str) -> None:
    step = cli.run("threads", "show", thread, "--steps", "--json").value["steps"][-1]["number"]
    made = cli.run("threads", "fork", thread, "--at", str(step), "--json").value
    assert made["status"] == {"done": "done", "waiting": "unfinished"}[thread]
    before, after = (cli.run("threads", "show", each, "--json").value for each in (made["thread"], thread))
    kept = ("messages", "skills", "plan", "grants", "question", "turns")
    assert [before[each] for each in kept] == [after[each] for each in kept]
    assert before["usage"]["thread"].items() >= after["usage"]["thread"].items()
    assert cli.run("threads", "delete", thread, "--yes").code == 0
    assert cli.run("threads", "show", made["thread"], "--json").value == before
