"""What commands print of skills, threads and runs: nothing hidden, and no secret that can be known."""

from tests.agents import call, calls
from tests.graph.cli.command_line import CommandLine

KEY = "sk-proj-1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUv"
PASSWORD = "correct-horse-battery"
HIDDEN = "no\u200bte\u202etxt\u00a0\U000e0041.md"
SHOWN = "no<U+200B>te<U+202E>txt<U+00A0><U+E0041>.md"
WRITE = calls(call("write_file", path=HIDDEN, content="x"))
COMMANDS = [
    ["threads", "list"],
    ["threads", "show", "note"],
    ["threads", "show", "note", "--steps"],
    ["threads", "record", "note.1"],
]


def talk(cli: CommandLine, *replies: object, question: str = "Note it") -> None:
    done = cli.run("ask", question, "--thread", "note", "--yes", "write", "--model", cli.script(*replies))
    assert done.code == 0, done.err


def test_what_is_in_a_text_is_shown_and_cannot_steer_the_terminal(cli: CommandLine) -> None:
    talk(cli, WRITE, "Written.")
    for command in COMMANDS[1:]:
        shown = cli.run(*command).out
        assert f"path={SHOWN}" in shown
        assert not set(shown) & set(HIDDEN) - {*"notetxt.md"}
    (cli.workspace / HIDDEN).unlink()
    asked = cli.run("ask", "Go", "-v", "--model", cli.script(WRITE, "No."))
    assert f"path={SHOWN}" in asked.out
    assert f"`{SHOWN}` (new file, 1 line):" in asked.out
    done = cli.run("ask", "Rain?", "--model", cli.script("\x1b]0;owned\x07\x1b[2Jclear\u202e"))
    assert done.out.endswith("<U+001B>]0;owned<U+0007><U+001B>[2Jclear<U+202E>\n")
    # Invisible instructions (tag characters) were dropped from what a person reads before trusting.
    text = "---\nname: sly\ndescription: Sly.\n---\n\nBe kind.\U000e0041\U000e0042\u202e\n"
    cli.write(".agent/skills/sly/SKILL.md", text)
    assert "Be kind.<U+E0041><U+E0042><U+202E>" in cli.run("skills", "show", "sly").out


def test_secrets_that_a_thread_keeps_are_not_shown(cli: CommandLine) -> None:
    """Keys of known shapes, and values of this process's secret variables, wherever they stand."""
    write = call("write_file", path=".env.example", content=f"API_KEY={KEY}\nlogin {PASSWORD}\n")
    question = f"Use {KEY} and {PASSWORD}"
    talk(cli, calls(write, content=f"I use {PASSWORD}"), f"Wrote {KEY}.", question=question)
    for command in (*COMMANDS, *([*command, "--json"] for command in COMMANDS)):
        shown = cli.run(*command, SERVICE_PASSWORD=PASSWORD)
        assert (shown.code, "[secret]" in shown.out) == (0, True)
        assert (KEY in shown.out, PASSWORD in shown.out) == (False, False), command


def test_secrets_are_taken_out_of_what_a_machine_is_told(cli: CommandLine) -> None:
    """In CI, what `ask --json` prints is in a log: contents, questions, answers."""
    write = call("write_file", path="e", content=f"API_KEY={KEY}\nlogin {PASSWORD}\n")
    model = cli.script(calls(write, content=f"I use {PASSWORD}"), f"Wrote {KEY}.", "Done.")
    ask = ("ask", "Go", "--thread", "t", "--json", "--model", model)
    for words in (ask, ("resume", "t", "--approve", "--json")):
        told = cli.run(*words, LOGIN_TOKEN=PASSWORD)
        assert (KEY in told.out, PASSWORD in told.out, told.value["redacted"]) == (False, False, True)
        assert told.value["thread"] == "t"
    assert "redacted" not in cli.run("ask", "Go", "--json", "--model", cli.script("Done.")).value


def test_a_long_thread_is_shown_whole(cli: CommandLine) -> None:
    talk(cli, calls(*(call("list_dir", path=f"a/{number}") for number in range(130))), "Done.")
    messages = cli.run("threads", "show", "note", "--json").value["messages"]
    assert sum(len(each["calls"]) for each in messages) == 130
