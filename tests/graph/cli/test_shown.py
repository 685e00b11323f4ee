"""What commands print of skills, threads and runs: nothing hidden, and no secret that can be known."""

import json
from pathlib import Path

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import CommandLine

KEY = "sk-proj-1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUv"
PASSWORD = "correct-horse-battery"
HIDDEN = "no\u200bte\u202etxt\u00a0\U000e0041.md"
SHOWN = "no<U+200B>te<U+202E>txt<U+00A0><U+E0041>.md"


def talk(cli: CommandLine, *replies: object, question: str = "Note it") -> None:
    done = cli.run("ask", question, "--thread", "note", "--yes", "write", "--model", cli.script(*replies))
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "command",
    [["threads", "show", "note"], ["threads", "show", "note", "--steps"], ["runs", "show", "note.1"]],
)
def test_a_path_that_was_written_is_shown_with_what_is_in_it(cli: CommandLine, command: list[str]) -> None:
    talk(cli, calls(call("write_file", path=HIDDEN, content="x")), "Written.")
    shown = cli.run(*command).out
    assert f"path={SHOWN}" in shown
    assert not set(shown) & set("\u200b\u202e\u00a0\U000e0041")


def test_progress_shows_what_is_in_a_path(cli: CommandLine) -> None:
    asked = cli.run(
        "ask", "Go", "--model", cli.script(calls(call("write_file", path=HIDDEN, content="x")), "No.")
    )
    assert f"path={SHOWN}" in asked.out
    assert f"`{SHOWN}` (new file, 1 line):" in asked.out


def test_a_skill_is_shown_with_what_is_in_its_file(cli: CommandLine) -> None:
    """Invisible instructions (tag characters) were dropped from what a person reads before trusting."""
    folder = cli.workspace / ".agent" / "skills" / "sly"
    folder.mkdir(parents=True)
    text = "---\nname: sly\ndescription: Sly.\n---\n\nBe kind.\U000e0041\U000e0042\u202e\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    assert "Be kind.<U+E0041><U+E0042><U+202E>" in cli.run("skills", "show", "sly").out


@pytest.mark.parametrize(
    "command",
    [
        ["threads", "list"],
        ["threads", "list", "--json"],
        ["threads", "show", "note"],
        ["threads", "show", "note", "--json"],
        ["threads", "show", "note", "--steps"],
        ["threads", "show", "note", "--steps", "--json"],
        ["grants", "list", "note", "--json"],
        ["runs", "show", "note.1"],
        ["runs", "show", "note.1", "--json"],
    ],
)
@pytest.mark.variants
def test_secrets_that_a_thread_keeps_are_not_shown(cli: CommandLine, command: list[str]) -> None:
    """Keys of known shapes, and values of this process's secret variables, wherever they stand."""
    write = call("write_file", path=".env.example", content=f"API_KEY={KEY}\nlogin {PASSWORD}\n")
    talk(
        cli, calls(write, content=f"I use {PASSWORD}"), f"Wrote {KEY}.", question=f"Use {KEY} and {PASSWORD}"
    )
    shown = cli.run(*command, SERVICE_PASSWORD=PASSWORD)
    assert shown.code == 0, shown.err
    assert KEY not in shown.out
    assert PASSWORD not in shown.out
    if "grants" not in command:
        assert "[secret]" in shown.out


@pytest.mark.parametrize("answer", [None, "--approve"])
def test_secrets_are_taken_out_of_what_a_machine_is_told_unless_it_wants_them(
    cli: CommandLine, answer: str | None
) -> None:
    """In CI, what `ask --json` prints is in a log: contents, questions, answers."""
    write = call("write_file", path="e", content=f"API_KEY={KEY}\nlogin {PASSWORD}\n")
    model = cli.script(calls(write, content=f"I use {PASSWORD}"), f"Wrote {KEY}.")
    for name, options in (("safe", []), ("clear", ["--show-secrets"])):
        told = cli.run(
            "ask", "Go", "--thread", name, "--json", *options, "--model", model, LOGIN_TOKEN=PASSWORD
        )
        if answer:
            told = cli.run("resume", name, answer, "--json", *options, LOGIN_TOKEN=PASSWORD)
        assert (KEY in told.out, "redacted" in told.value) == (bool(options), not options)
        assert (PASSWORD in told.out) == bool(options)
        assert told.value["thread"] == name


def test_an_object_without_secrets_is_printed_as_it_is(cli: CommandLine) -> None:
    told = cli.run("ask", "Go", "--json", "--model", cli.script("Done."))
    assert "redacted" not in told.value
    refused = cli.run("ask", "Go", "--show-secrets", "--model", cli.script("Done."))
    assert (refused.code, "goes with --json" in refused.err) == (2, True)


def test_a_long_thread_is_shown_whole(cli: CommandLine) -> None:
    many = [call("list_dir", path=str(Path("a") / str(number))) for number in range(130)]
    talk(cli, calls(*many), "Done.")
    (message, *_) = [
        each
        for each in json.loads(cli.run("threads", "show", "note", "--json").out)["messages"]
        if each["calls"]
    ]
    assert len(message["calls"]) == 130
