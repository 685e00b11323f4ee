"""A repository's own skills: they are said, and nothing that a person said in advance covers them."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.agents import call, calls, write_skill
from tests.graph.cli.command_line import CommandLine, Finished

HIDES = (
    "csv-report of project (untrusted) hides csv-report of bundled: write csv-report@bundled to use that one."
)
RUN = call("run_script", skill="csv-report", path="scripts/run.py")
WRITE = call("write_file", path="note.txt", content="x")
UNLOAD = call("unload_skill", name="csv-report")


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """Return the command line in a cloned repository that brings a csv-report of its own."""
    cli = CommandLine(tmp_path)
    write_skill(
        cli.workspace / ".agent/skills", "csv-report", "Does it.", scripts__run_py="open('ran', 'w')\n"
    )
    return cli


def ask(cli: CommandLine, *replies: Any, load: str = "csv-report") -> Finished:
    loads = calls(call("load_skill", name=load))
    model = cli.script(loads, *(calls(reply) for reply in replies), "done")
    return cli.run("ask", "go", "--yes", "run,write", "--model", model)


def trust_command(out: str) -> list[str]:
    """Return the words of the command that a question shows."""
    (words,) = {*re.findall(r"skills-agent (trust\b[^)\n]*)", out)}
    return str(words).split()


def test_a_hidden_skill_is_said_in_the_list_and_by_the_doctor(cli: CommandLine) -> None:
    listed = cli.run("skills", "list", "--json").value
    (shown,) = [entry for entry in listed if entry["name"] == "csv-report"]
    assert shown["note"] == HIDES
    assert cli.run("skills", "list").out.count(HIDES) == 1
    assert cli.run("doctor").out.count("hides csv-report of") == 1
    assert cli.run("doctor", "--json").value["untrusted"] == [HIDES]
    assert cli.run("chat", stdin="/skills\n").out.count(HIDES) == 1


def test_yes_does_not_cover_a_script_of_the_repository_until_it_is_trusted(cli: CommandLine) -> None:
    """That it hides another one is said when it is loaded, and in the question."""
    stopped = ask(cli, RUN)
    assert stopped.code == 3
    assert not (cli.workspace / "ran").exists()
    progress, _, question = stopped.out.partition("Approval needed")
    loaded = next(line for line in (stopped.err + progress).splitlines() if line.startswith("load "))
    assert (loaded.count(HIDES), question.count(HIDES)) == (1, 1)
    assert "--yes run covers nothing after an untrusted skill was loaded." in stopped.out
    assert cli.run(*trust_command(stopped.out)).code == 0
    assert ask(cli, RUN).code == 0
    assert (cli.workspace / "ran").exists()
    assert HIDES not in cli.run("skills", "list").out


@pytest.mark.parametrize("before", [[], [UNLOAD], [UNLOAD, call("load_skill", name="csv-report@bundled")]])
def test_yes_does_not_cover_what_an_untrusted_skill_may_steer(
    cli: CommandLine, before: list[dict[str, Any]]
) -> None:
    """Nor once it had itself unloaded."""
    stopped = ask(cli, *before, WRITE)
    assert stopped.code == 3
    assert not (cli.workspace / "note.txt").exists()
    assert trust_command(stopped.out)[:1] == ["trust"]


def test_yes_does_not_cover_a_trusted_script_that_an_untrusted_skill_may_steer(cli: CommandLine) -> None:
    """Its text can have the model run a trusted script with arguments that write or read what it wants."""
    cli.write_skill()
    steered = call("run_script", skill="rain-gauge", path="scripts/add_up.py", args=["rainfall.csv"])
    loads = calls(call("load_skill", name="csv-report"), call("load_skill", name="rain-gauge"))
    ask_it = ("ask", "go", "--yes", "run", *cli.plays(loads, calls(steered), "done"))
    stopped = cli.run(*ask_it)
    assert stopped.code == 3
    question = stopped.out.partition("Approval needed")[2]
    assert "Warning: Skills from untrusted sources were loaded: `csv-report`." in question
    assert "Skill: rain-gauge, from a trusted source (configured)." in question
    assert cli.run(*trust_command(stopped.out)).code == 0
    assert cli.run(*ask_it).code == 0


def test_yes_covers_what_trusted_skills_and_no_skills_want(cli: CommandLine) -> None:
    done = ask(cli, WRITE, load="csv-report@bundled")
    assert (done.code, HIDES in done.out + done.err) == (0, False)
    shutil.rmtree(cli.workspace / ".agent/skills")
    assert ask(cli, WRITE, load="no-such").code == 0


def test_settings_of_a_trusted_repository_waive_no_question_for_a_skill_that_changed_since(
    cli: CommandLine,
) -> None:
    (cli.workspace / ".agent/config.json").write_text('{"require_approval_for": []}')
    assert cli.run("trust").code == 0
    run = cli.script(calls(call("load_skill", name="csv-report")), calls(RUN), "done")
    assert cli.run("ask", "go", "--model", run).code == 0
    (cli.workspace / "ran").unlink()
    (cli.workspace / ".agent/skills/csv-report/scripts/run.py").write_text("open('other', 'w')\n")
    assert cli.run("ask", "go", "--model", run).code == 3
    assert not (cli.workspace / "other").exists()


@pytest.mark.parametrize("name", ["csv-report@bundled", "csv-report-bundled"])
def test_no_name_is_taken_for_a_name_with_its_source(cli: CommandLine, name: str) -> None:
    write_skill(cli.workspace / ".agent/skills", name, "Takes the name that was shown for the other.")
    assert cli.run("skills", "show", "csv-report@bundled", "--json").value["source"] == "bundled"
    shutil.rmtree(cli.workspace / ".agent/skills/csv-report")
    assert cli.run("skills", "show", "csv-report@project").code == 1
