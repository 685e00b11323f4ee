"""The command line where a run was cut off in the middle of an effect, and where two run one thread."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.graph.cli.command_line import LOAD, RUN, CommandLine

SCRIPT = """\
with open("effects.txt", "a") as file:
    file.write("line\\n")
open("gate").read()
print("all stations: 544 mm")
"""
ASK = ("ask", "How much rain?", "--thread", "t", "--yes", "run", "--model")


class Cut:
    """A run that stands in the middle of its script."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli
        (cli.skills / "rain-gauge" / "scripts" / "add_up.py").write_text(SCRIPT)
        os.mkfifo(cli.workspace / "gate")
        self.options = ("--skills-dir", str(cli.skills))
        self.process: subprocess.Popen[str] = cli.start(
            *ASK, cli.script(LOAD, RUN, "It rained 544 mm."), *self.options
        )
        # Opens when the script reads it.
        self.gate = (cli.workspace / "gate").open("w")

    def kill(self) -> None:
        """End the agent, and let no later script wait."""
        self.process.kill()
        self.process.communicate(timeout=60)
        self.gate.close()
        (self.cli.workspace / "gate").unlink()
        (self.cli.workspace / "gate").write_text("")

    @property
    def effects(self) -> int:
        """Return how often the effect took place."""
        return len((self.cli.workspace / "effects.txt").read_text().splitlines())


@pytest.fixture
def cut(cli: CommandLine) -> Iterator[Cut]:
    cut = Cut(cli)
    yield cut
    cut.process.kill()
    cut.process.communicate(timeout=60)
    cut.gate.close()


def test_a_second_command_on_a_busy_thread_is_told_so_in_one_line(cut: Cut) -> None:
    refused = cut.cli.run("resume", "t")
    assert refused.code == 1
    assert "Thread 't' is busy" in refused.err
    assert len([line for line in refused.err.splitlines() if line.startswith("error:")]) == 1
    said = cut.cli.run("ask", "and now?", "--thread", "t")
    assert (said.code, "is busy" in said.err) == (1, True)
    told = cut.cli.run("resume", "t", "--json")
    assert (told.code, told.value["status"], told.value["thread"]) == (1, "error", "t")
    assert f"error: {told.value['error']}\n" == told.err
    assert told.value["resume"] == "skills-agent resume t"


def test_resume_asks_about_the_unknown_outcome_and_takes_the_answer(cut: Cut) -> None:
    cut.kill()
    asked = cut.cli.run("resume", "t")
    assert asked.code == 3
    assert "Whether it did its work is unknown" in asked.out
    refused = cut.cli.run("resume", "t", "--approve", "--always", "thread")
    assert refused.code == 2
    assert "this call alone" in refused.err
    assert cut.effects == 1
    assert cut.cli.run("runs", "list", "--json").value[0]["outcome"] == "waiting"
    done = cut.cli.run("resume", "t", "--approve")
    assert (done.code, cut.effects) == (0, 2)
    assert "It rained 544 mm." in done.out
    story = cut.cli.run("runs", "show", "t.1").out
    order = [
        "  act       starts run",
        "went on: ",
        "asked a person: run",
        "went on: ",
        "answered: approve: run",
    ]
    order += ["again: starts run", "exit code 0", "ended, done"]
    place = 0
    for part in order:
        assert part in story[place:], story
        place = story.index(part, place) + len(part)
    assert story.count("starts run_script") == 2


def test_resume_with_reject_leaves_it(cut: Cut) -> None:
    cut.kill()
    asked = cut.cli.run("resume", "t", "--json")
    assert asked.code == 3
    (request,) = asked.value["interrupt"]["action_requests"]
    assert request["name"] == "run_script"
    done = cut.cli.run("resume", "t", "--reject", "--message", "I looked")
    assert (done.code, cut.effects) == (0, 1)
    story = cut.cli.run("runs", "show", "t.1").out
    assert "answered: reject, saying: I looked: run_script(" in story
    assert story.count("starts run_script") == 1
    shown = cut.cli.run("threads", "show", "t", "--json").value
    assert "Outcome unknown" in str(shown)


@pytest.mark.slow
def test_on_a_terminal_the_question_takes_approve_and_reject_only(cut: Cut) -> None:
    cut.kill()
    finished = cut.cli.on_terminal(
        "resume",
        "t",
        answers=[
            ("[s]top here", "edit {}\n"),
            ("approve or reject it", "thread\n"),
            ("for this call alone", "n\n"),
        ],
    )
    assert finished.code == 0
    assert cut.effects == 1


def test_what_the_script_left_for_other_programs_is_said_at_the_next_start(cut: Cut) -> None:
    (cut.cli.workspace / ".envrc").write_text("evil")
    cut.kill()
    started = cut.cli.run("ask", "hello", "--model", "offline")
    assert "cut off with the agent made .envrc" in started.err
    again = cut.cli.run("ask", "hello", "--model", "offline")
    assert "cut off with the agent" not in again.err
