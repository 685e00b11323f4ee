"""The command line where a run was cut off in the middle of an effect, and where two run one thread."""

import os
import re
import select
from collections.abc import Iterator

import pytest

from tests.graph.cli.command_line import LOAD, RUN, CommandLine

SCRIPT = """\
with open("effects.txt", "a") as file:
    file.write("line\\n")
open("gate").read()
print("all stations: 544 mm")
"""
PLAIN = 'sandbox = "off"\n'
"""In the sandbox a script that is cut off changed nothing of the workspace, and reaches no pipe in it."""


class Cut:
    """A run that stands in the middle of its script."""

    def __init__(self, cli: CommandLine, script: str = SCRIPT) -> None:
        self.cli = cli
        cli.write_users_settings(PLAIN)
        (cli.skills / "rain-gauge" / "scripts" / "add_up.py").write_text(script)
        os.mkfifo(cli.workspace / "gate")
        asked = ("ask", "How much rain?", "--thread", "t", "--yes", "run")
        self.process = cli.start(*asked, *cli.plays(LOAD, RUN, "It rained 544 mm."))
        # Opens when the script reads it.
        self.gate = (cli.workspace / "gate").open("w")

    def kill(self) -> None:
        """End the agent, and its script with it; let no later script wait."""
        self.process.kill()
        self.process.communicate(timeout=60)
        readers = select.poll()
        readers.register(self.gate, 0)
        assert readers.poll(60_000), "the script outlives its agent"
        self.gate.close()
        (self.cli.workspace / "gate").unlink()
        (self.cli.workspace / "gate").write_text("")

    def run_until_killed(self, *args: str) -> None:
        """Run a command until its script waits, and kill it."""
        before = self.effects
        (self.cli.workspace / "gate").unlink()
        os.mkfifo(self.cli.workspace / "gate")
        self.process = self.cli.start(*args)
        self.gate = (self.cli.workspace / "gate").open("w")
        assert self.effects == before + 1
        self.kill()

    @property
    def effects(self) -> int:
        """Return how often the effect took place."""
        return len((self.cli.workspace / "effects.txt").read_text().splitlines())


def check_busy(cli: CommandLine) -> None:
    """Check that other commands on a thread that runs are told so in one line."""
    refused = cli.run("resume", "t", "--json")
    (line,) = [line for line in refused.err.splitlines() if line.startswith("error:")]
    assert (refused.code, line) == (1, f"error: {refused.value['error']}")
    assert "Thread 't' is busy" in line
    assert (refused.value["status"], refused.value["resume"]) == ("error", "skills-agent resume t")
    said = cli.run("ask", "and now?", "--thread", "t")
    assert (said.code, "is busy" in said.err) == (1, True)


@pytest.fixture
def cut(cli: CommandLine) -> Iterator[Cut]:
    cut = Cut(cli)
    yield cut
    cut.process.kill()
    cut.process.communicate(timeout=60)
    cut.gate.close()


@pytest.mark.slow
def test_resume_asks_about_the_unknown_outcome_and_takes_the_answer(cut: Cut) -> None:
    check_busy(cut.cli)
    cut.kill()
    asked = cut.cli.run("resume", "t")
    assert asked.code == 3
    assert "Whether it did its work is unknown" in asked.out
    rest = asked.out.partition("A call was cut off in the middle. Run it again, or leave it?")[2]
    assert rest.lstrip().startswith("Outcome unknown: run_script was started at ")
    assert "Approval needed" not in asked.out
    refused = cut.cli.run("resume", "t", "--approve", "--always", "thread")
    assert (refused.code, "grant" in refused.err) == (2, True)
    assert cut.effects == 1
    assert cut.cli.run("threads", "record", "--json").value[0]["outcome"] == "waiting"
    done = cut.cli.run("resume", "t", "--approve")
    assert (done.code, cut.effects) == (0, 2)
    assert "It rained 544 mm." in done.out
    story = cut.cli.run("threads", "record", "t.1").out
    before = ("  act       starts run", "went on: ", "asked a person: run", "went on: ")
    after = ("answered: approve: run", "again: starts run", "exit code 0", "ended, done")
    assert re.search(".*".join(map(re.escape, (*before, *after))), story, re.DOTALL), story
    assert story.count("starts run_script") == 2


@pytest.mark.slow
def test_resume_with_reject_leaves_it(cut: Cut) -> None:
    """Until then, the doctor names the thread."""
    cut.kill()
    told = cut.cli.run("doctor", "--json").value["open_threads"]
    assert (told, "skills-agent resume t" in cut.cli.run("doctor").out) == ({"t": "unfinished"}, True)
    assert cut.cli.run("resume", "--reject").code == 1  # nothing was asked yet
    asked = cut.cli.run("resume", "--json")
    assert (asked.code, asked.value["interrupt"]["action_requests"][0]["name"]) == (3, "run_script")
    done = cut.cli.run("resume", "t", "--reject", "--message", "I looked")
    assert (done.code, cut.effects) == (0, 1)
    story = cut.cli.run("threads", "record", "t.1").out
    assert "answered: reject, saying: I looked: run_script(" in story
    assert story.count("starts run_script") == 1
    assert "Outcome unknown" in str(cut.cli.run("threads", "show", "t", "--json").value)
    assert cut.cli.run("doctor", "--json").value["open_threads"] == {}


@pytest.mark.slow
def test_a_command_that_is_typed_again_after_each_crash_runs_the_call_once_more_and_not_more_often(
    cut: Cut,
) -> None:
    """`resume --approve` from the history of a shell."""
    cut.kill()
    (cut.cli.workspace / "decisions.json").write_text('[{"type": "approve"}]')
    asked = cut.cli.run("resume", "t", "--json")
    other = cut.cli.run("resume", "t", "--decisions", "decisions.json", "--attempt", "2")
    assert (other.code, "is about attempt 1 of a call" in other.err) == (1, True)
    assert cut.effects == 1
    assert asked.value["resume"] == "skills-agent resume t --approve --attempt 1"
    cut.run_until_killed("resume", "t", "--approve")
    assert cut.effects == 2
    refused = cut.cli.run("resume", "t", "--approve")
    assert (refused.code, "no open question: it was cut off" in refused.err) == (1, True)
    asked = cut.cli.run("resume", "t")
    assert "(attempt 2)" in asked.out
    assert asked.out.endswith("To run it: skills-agent resume t --approve --attempt 2\n")
    for words in (["--approve"], ["--approve", "--attempt", "1"], ["--reject", "--attempt", "1"]):
        refused = cut.cli.run("resume", "t", *words)
        assert (refused.code, "attempt" in refused.err) == (1 if "1" in words else 2, True)
    assert cut.effects == 2
    done = cut.cli.run("resume", "t", "--approve", "--attempt", "2")
    assert (done.code, cut.effects) == (0, 3)


@pytest.mark.slow
def test_on_a_terminal_the_question_takes_approve_and_reject_only(cut: Cut) -> None:
    cut.kill()
    typed = [("[l]eave it [message] (v: view all", "edit {}\n"), ("'edit'", "thread\n"), ("'thread'", "n\n")]
    assert cut.cli.on_terminal("resume", "t", answers=typed).code == 0
    assert cut.effects == 1


@pytest.mark.slow
def test_what_the_script_left_for_other_programs_is_said_at_the_next_start(cut: Cut) -> None:
    (cut.cli.workspace / ".envrc").write_text("evil")
    cut.kill()
    started = cut.cli.run("ask", "hello", "--model", "offline")
    assert "cut off with the agent. Taken back: .envrc" in started.err
    again = cut.cli.run("ask", "hello", "--model", "offline")
    assert "cut off with the agent" not in again.err


LOOKS = """\
import os, pathlib
done = pathlib.Path(os.environ["SKILLS_AGENT_CALL_KEY"])
if os.environ["SKILLS_AGENT_CALL_ATTEMPT"] != "1" and done.exists():
    raise SystemExit(pathlib.Path("said").write_text("it was done before") and None)
BEFORE
with open("effects.txt", "a") as file:
    file.write("line\\n")
done.touch()
AFTER
pathlib.Path("said").write_text("done now")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "said"), [("BEFORE", "done now"), ("AFTER", "it was done before")])
def test_a_script_that_looks_goes_on_after_a_kill_without_a_person(
    cli: CommandLine, moment: str, said: str
) -> None:
    skill = cli.skills / "rain-gauge" / "SKILL.md"
    head, body = skill.read_text().split("\n---\n", 1)
    skill.write_text(f"{head}\nmetadata:\n  idempotent: scripts/add_up.py\n---\n{body}")
    waits = LOOKS.replace(moment, 'open("gate").read()').replace("BEFORE", "").replace("AFTER", "")
    cut = Cut(cli, waits)
    cut.kill()
    every = cli.run("resume", "--yes", "run", "--skills-dir", str(cli.skills))
    assert (every.code, cut.effects) == (0, 1)
    assert (cli.workspace / "said").read_text() == said
    assert "It rained 544 mm." in every.out
