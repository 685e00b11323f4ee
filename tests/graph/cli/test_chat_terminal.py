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


def test_ctrl_c_drops_the_line_and_ends_the_chat_the_second_time(cli: CommandLine) -> None:
    typed = [(READY, f"half{CTRL_C}"), ("Ctrl-C again", ""), (READY, CTRL_C)]
    done = cli.on_terminal("chat", "--thread", "talk", "--model", "offline", answers=typed)
    assert done.code == 130
    assert "to go on: skills-agent chat --thread talk" in done.out


def test_sigterm_at_the_prompt_leaves_the_terminal_as_it_was_and_says_how_to_go_on(cli: CommandLine) -> None:
    chosen = ["--thread", "talk", "--model", "offline"]
    done = cli.on_terminal("chat", *chosen, answers=[(READY, "half"), ("half", signal.SIGTERM)])
    assert done.code == 143
    _, _, end = done.out.rpartition("\x1b[?2004l")
    assert end == "\r\nterminated; to go on: skills-agent chat --thread talk\r\n"


def test_another_model_answers_from_the_next_turn_on_and_is_kept(cli: CommandLine) -> None:
    model = cli.script("I am scripted.")
    typed = [
        (READY, "/model\r"), (model, ""), (READY, "/model oflin\r"), ("Did you mean offline?", ""),
        (READY, "/model offline\r"), ("offline", ""), (READY, "Hello\r"), ("tokens", ""), END,
    ]  # fmt: skip
    done = cli.on_terminal("chat", "--thread", "talk", "--model", model, answers=typed)
    assert done.code == 0
    assert "I am scripted." not in done.out
    assert "\noffline\n" in cli.run("chat", "-c", stdin="/model\n").out


def test_a_person_goes_on_in_another_thread(cli: CommandLine) -> None:
    cli.run("ask", "First?", "--thread", "first", "--model", cli.script("One.", "Two."))
    typed = [
        (READY, "/thread frist\r"), ("first", ""), (READY, "/thread first\r"), ("thread first.", ""),
        (READY, "Second?\r"), ("Two.", ""), END,
    ]  # fmt: skip
    done = cli.on_terminal("chat", "--model", "offline", answers=typed)
    assert done.code == 0
    assert _said(cli, "first") == ["First?", "Second?"]


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
