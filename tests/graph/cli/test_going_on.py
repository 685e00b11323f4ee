"""Threads that nobody names: the newest one, and the one that waits."""

from pathlib import Path

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import CommandLine

WRITE = calls(call("write_file", path="note.txt", content="hi"))


def test_a_question_goes_on_with_the_newest_thread(cli: CommandLine) -> None:
    for name in ("old", "new"):
        cli.run("ask", "First?", "--thread", name, "--model", cli.script("One.", "Two.", name=f"{name}.json"))
    done = cli.run("ask", "-c", "Second?")
    assert (done.code, "thread    new\n" in done.out, done.out.endswith("\nTwo.\n")) == (0, True, True)
    other = cli.run("ask", "-c", "Second?", "--thread", "old")
    assert (other.code, "leave out one" in other.err) == (2, True)


def test_without_a_thread_there_is_nothing_to_go_on_with(cli: CommandLine) -> None:
    done = cli.run("ask", "-c", "Second?")
    assert (done.code, done.out) == (1, "")
    assert "There is no thread to go on with" in done.err


def test_resume_takes_the_only_thread_that_waits(cli: CommandLine) -> None:
    cli.run("ask", "Hello?", "--thread", "done", "--model", cli.script("Hello."))
    asked = cli.run(
        "ask", "Write", "--thread", "open", "--model", cli.script(WRITE, "Written.", name="w.json")
    )
    assert asked.code == 3
    done = cli.run("resume", "--approve")
    assert (done.code, done.out.startswith("Thread open:\n")) == (0, True)
    assert (cli.workspace / "note.txt").read_text() == "hi"
    none = cli.run("resume", "--approve")
    assert (none.code, none.out, none.err) == (1, "", "error: No thread waits here, and none was cut off.\n")


def test_resume_names_the_threads_where_several_wait(cli: CommandLine) -> None:
    for name in ("one", "two"):
        cli.run("ask", "Write", "--thread", name, "--model", cli.script(WRITE, "x", name=f"{name}.json"))
    done = cli.run("resume", "--approve")
    assert (done.code, done.out) == (2, "")
    assert "name one of these threads, or --all: two (waiting), one (waiting)" in done.err
    assert not (cli.workspace / "note.txt").exists()


@pytest.mark.parametrize(("text", "near"), [("/nope x", ""), ("/rain-gage x", " Did you mean /rain-gauge?")])
@pytest.mark.variants
def test_a_name_that_no_skill_has_is_no_question(cli: CommandLine, text: str, near: str) -> None:
    folder, model = str(cli.skills), cli.script("never asked")
    done = cli.run("ask", text, "--skills-dir", folder, "--model", model)
    assert (done.code, done.out) == (2, "")
    assert f"There is no skill '{text.split(maxsplit=1)[0]}' here.{near}" in done.err
    assert cli.run("ask", "/etc/hosts is a path", "--model", model).code == 0


def test_what_is_piped_in_is_attached_to_the_question(cli: CommandLine, tmp_path: Path) -> None:
    cli.write_skill()
    text = "station,mm\n$rain-gauge,3\n"
    done = cli.run("ask", "How much?", "--skills-dir", str(cli.skills), "--thread", "t",
                   "--model", cli.script("3."), stdin=text)  # fmt: skip
    assert (done.code, "loaded" in done.out) == (0, False)  # a name in it is no request for a skill
    (said, _) = cli.run("threads", "show", "t", "--json").value["messages"]
    assert said["text"] == f"How much?\n\nFrom stdin (2 lines, to the end of this message):\n\n{text}"


def test_what_is_large_is_a_file_that_the_agent_can_read(cli: CommandLine) -> None:
    text = "station,mm\n" + "Bergen,3\n" * 5_000
    done = cli.run("ask", "How much?", "--thread", "t", "--model", cli.script("Much."), stdin=text)
    assert done.code == 0
    (said, _) = cli.run("threads", "show", "t", "--json").value["messages"]
    question, _, path = said["text"].removesuffix(" (5001 lines of text).").partition("Stdin is in the file ")
    assert question == "How much?\n\n"
    model = cli.script(calls(call("read_file", path=path, start=5001)), "done", name="second.json")
    cli.run("ask", "Read it", "--thread", "second", "--model", model)
    read = cli.run("threads", "show", "second", "--json").value["messages"][1]["calls"][0]["result"]
    assert "Bergen,3" in read


def test_more_than_a_file_may_hold_is_refused(cli: CommandLine) -> None:
    done = cli.run("ask", "How much?", "--model", cli.script("Much."), stdin="x" * 10_000_001)
    assert (done.code, "more than 10,000,000 bytes" in done.err) == (2, True)


def test_a_link_in_the_workspace_does_not_lead_what_is_piped_in_out_of_it(
    cli: CommandLine, tmp_path: Path
) -> None:
    ask = ("ask", "How much?", "--model", cli.script("Much.", "Much."))
    cli.run(*ask, stdin="x" * 100_000)
    (kept,) = cli.workspace.glob("stdin-*.txt")
    kept.unlink()
    kept.symlink_to(tmp_path / "victim")
    assert cli.run(*ask, stdin="x" * 100_000).code == 0
    assert (kept.is_symlink(), kept.read_text(), (tmp_path / "victim").exists()) == (
        False,
        "x" * 100_000,
        False,
    )


@pytest.mark.slow
def test_a_pipe_that_nobody_writes_to_keeps_no_question_waiting(cli: CommandLine) -> None:
    process = cli.start_piped("ask", "How much?", "--model", cli.script("Much."))
    assert process.stdout
    assert process.stderr
    assert process.stdout.read().endswith("\nMuch.\n")
    assert "Nothing came on stdin" in process.stderr.read()
    process.communicate()
    assert process.returncode == 0
