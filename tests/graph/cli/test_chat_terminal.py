"""A chat on a terminal: what is typed and pasted, and the commands that need it."""

import signal

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import READY, CommandLine

pytestmark = pytest.mark.slow

WRITE = calls(call("write_file", path="note.txt", content="draft"))
LINES = "\n".join(f"line {number}" for number in range(200))
END = (READY, "\x04")
QUESTION = "\r\n? "
CTRL_C = "\x03"


def _said(cli: CommandLine, thread: str) -> list[str]:
    messages = cli.run("threads", "show", thread, "--json").value["messages"]
    return [each["text"] for each in messages if each["role"] == "user"]


def test_pasted_lines_are_one_message_and_come_back_in_the_next_chat(cli: CommandLine) -> None:
    chosen = ["--thread", "talk", "--model", cli.script("Read.", "Again.")]
    pasted = (READY, f"\x1b[200~{LINES}\x1b[201~\r")
    done = cli.on_terminal("chat", *chosen, answers=[pasted, ("Read.", ""), END])
    assert done.code == 0
    again = cli.on_terminal(
        "chat", "--thread", "talk", answers=[(READY, "\x1b[A"), ("199", "\r"), ("Again.", ""), END]
    )
    assert again.code == 0
    assert _said(cli, "talk") == [LINES, LINES]
    assert "WARNING" not in done.out


def test_sigterm_at_the_prompt_leaves_the_terminal_as_it_was_and_says_how_to_go_on(cli: CommandLine) -> None:
    chosen = ["--thread", "talk", "--model", "offline"]
    done = cli.on_terminal("chat", *chosen, answers=[(READY, "half"), ("half", signal.SIGTERM)])
    assert done.code == 143
    _, _, end = done.out.rpartition("\x1b[?2004l")
    assert end == "\r\nterminated; to go on: skills-agent chat --thread talk\r\n"


def test_the_arguments_of_a_call_stand_there_to_be_edited(cli: CommandLine) -> None:
    """A comma at the end is a fault; without it, two characters become one, and Enter is taken."""
    to_the_end = "\x1b[1;5F"
    mended = f'{to_the_end}\x7f\x1b[A\x1b[F\x7f\x7f!"\r'
    typed = [
        (READY, "Note it\r"), (QUESTION, "e\n"), ("draft", f"{to_the_end},\r"), ("line 4, column", mended),
        ("tokens", ""), END,
    ]  # fmt: skip
    done = cli.on_terminal("chat", "--model", cli.script(WRITE, "Done."), answers=typed)
    assert done.code == 0
    assert "This runs instead:" in done.out
    assert (cli.workspace / "note.txt").read_text() == "draf!"


def test_what_is_typed_before_a_question_is_no_answer_to_it(cli: CommandLine) -> None:
    """The first line would approve the call."""
    typed = [("", "a\n"), (QUESTION, "r\n")]
    done = cli.on_terminal("ask", "Note it", "--model", cli.script(WRITE, "Not done."), answers=typed)
    assert "Not done." in done.out
    assert not (cli.workspace / "note.txt").exists()


def test_what_is_typed_after_a_message_does_not_end_the_editing_of_arguments(cli: CommandLine) -> None:
    typed = [
        (READY, "Note it\r\r"), (QUESTION, "e\n"), ("draft", CTRL_C), ("? ", "r\n"), ("Not done.", ""), END,
    ]  # fmt: skip
    cli.on_terminal("chat", "--model", cli.script(WRITE, "Not done."), answers=typed)
    assert not (cli.workspace / "note.txt").exists()
