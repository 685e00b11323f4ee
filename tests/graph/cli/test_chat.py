"""skills-agent chat, with lines from a pipe and with keys on a terminal."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from skills_agent.graph.cli.prompt import MAX_CHARACTERS, TextPrompt
from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, READY, RUN, CommandLine
from tests.openai_server import KEY, Completion, openai_server
from tests.waiting import PATIENCE

WRITE = calls(call("write_file", path="note.txt", content="draft"))
LINES = "\n".join(f"line {number}" for number in range(200))
ENTER, ESCAPE, CTRL_C, CTRL_D, UP = "\r", "\x1b", "\x03", "\x04", "\x1b[A"
END = (READY, CTRL_D)
QUESTION = "\r\n? "


def test_a_conversation_goes_on_until_quit(cli: CommandLine) -> None:
    """A skill is loaded by its name, and a name that no skill has is not sent to the model."""
    lines = ["/help", "Hello", "/rain-gauge how much?", "/skills", "/skils now", "/etc/hosts is a path"]
    chosen = cli.plays("Hello yourself.", "It rained.", "So it is.")
    talk = cli.run("chat", *chosen, stdin="\n".join([*lines, "/quit", "never said"]))
    assert (talk.code, talk.err) == (0, "")
    assert all(f"\n{answer}\n" in talk.out for answer in ("Hello yourself.", "It rained.", "So it is."))
    assert "never said" not in talk.out
    assert any(line.startswith("rain-gauge ") and "(loaded)" in line for line in talk.out.splitlines())
    assert "'/skils'" in talk.out
    assert "/skills?" in talk.out


def test_a_skill_is_taken_out_of_the_thread_without_a_model(cli: CommandLine) -> None:
    assert (
        cli.run(
            "chat", "--thread", "t", *cli.plays("Loaded."), stdin="/rain-gauge go\n/unload rain-gauge\n"
        ).code
        == 0
    )
    (skill,) = cli.run("threads", "show", "t", "--json").value["skills"]
    assert skill["unloaded"]


def test_a_chat_goes_on_with_the_newest_thread_and_ends_at_a_question_without_a_person(
    cli: CommandLine,
) -> None:
    cli.run("ask", "First?", "--thread", "rain", *cli.plays("One.", LOAD, RUN, "544 mm."))
    done = cli.run("chat", "-c", stdin="Rain?\nMore?\n")
    assert done.out.startswith("thread rain.")
    assert (done.code, "skills-agent resume rain --approve" in done.out) == (3, True)
    assert cli.run("resume", "rain", "--approve").out.endswith("544 mm.\n")
    assert cli.said("rain", "user") == ["First?", "Rain?"]


def test_a_talk_that_outgrows_the_window_goes_on(cli: CommandLine) -> None:
    model = cli.script(*(f"Reply {number}." for number in range(6)))
    lines = "".join(f"Line {number}: {'rain and ' * 300}\n" for number in range(6))
    done = cli.run("chat", "--model", model, stdin=lines, SKILLS_AGENT_CONTEXT_WINDOW="6000")
    assert (done.code, "\nReply 5.\n" in done.out, "summed up" in done.out) == (0, True, True)


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(pipe, DummyOutput()):
        yield pipe


def test_what_is_typed_or_pasted_is_one_message_and_comes_back_in_the_next_chat(
    keys: PipeInput, tmp_path: Path
) -> None:
    prompt = TextPrompt(tmp_path / "history")
    pasted, too_long = (f"\x1b[200~{text}\x1b[201~" for text in (LINES, "x" * (MAX_CHARACTERS + 1)))
    keys.send_text(f"{pasted}{ENTER}one{ESCAPE}{ENTER}two{ENTER}half{CTRL_C}")
    assert [prompt.read("> ") for _ in range(2)] == [LINES, "one\ntwo"]  # one of them typed ahead
    with pytest.raises(KeyboardInterrupt):
        prompt.read("> ")
    assert prompt.dropped == "half"
    keys.send_text(f"one\\{ENTER}two{ENTER} hidden{ENTER}{too_long}{ENTER}{CTRL_D}")
    assert {prompt.read("> ") for _ in range(3)} > {"one\ntwo", " hidden"}
    with pytest.raises(EOFError):
        prompt.read("> ")
    keys.send_text(f"{UP}{ENTER}")
    assert TextPrompt(tmp_path / "history").read("> ") == "one\ntwo"


@pytest.mark.slow
def test_a_chat_on_a_terminal_has_what_was_typed_before_and_ends_with_ctrl_d(cli: CommandLine) -> None:
    chosen = ["--thread", "talk", "--model", cli.script("Read.", "Again.")]
    pasted = (READY, f"\x1b[200~{LINES}\x1b[201~\r")
    typed = [pasted, ("Read.", "/unl"), ("take a skill out", CTRL_C), END]
    done = cli.on_terminal("chat", *chosen, answers=typed)
    again = cli.on_terminal(
        "chat", "--thread", "talk", answers=[(READY, UP), ("199", "\r"), ("Again.", ""), END]
    )
    assert (done.code, again.code, cli.said("talk", "user"), "WARNING" in done.out) == (
        0,
        0,
        [LINES, LINES],
        False,
    )
    (history,) = cli.state.rglob("chat-history")
    assert history.parent.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_signal_at_the_prompt_leaves_the_terminal_as_it_was_and_says_how_to_go_on(cli: CommandLine) -> None:
    chosen = ["--thread", "talk", "--model", "offline"]
    for leave, code in ((signal.SIGTERM, 143), (CTRL_C, 130)):
        typed = [(READY, f"half{CTRL_C}"), *[(READY, CTRL_C)] * (leave == CTRL_C), (READY, leave)]
        done = cli.on_terminal("chat", *chosen, answers=typed)
        _, _, end = done.out.rpartition("\x1b[?2004l")
        assert (done.code, end.endswith("; to go on: skills-agent chat --thread talk\r\n")) == (code, True)


@pytest.mark.slow
def test_ctrl_c_stops_the_turn_and_the_next_message_steers(cli: CommandLine) -> None:
    """No model is asked again before somebody says something, in the next chat either."""
    stopped: tuple[str, str | signal.Signals] = ("decide", signal.SIGINT)
    is_over = threading.Event()

    def respond(body: dict[str, Any]) -> Completion:
        if "instead" not in str(body["messages"][-1]):
            is_over.wait(PATIENCE)
        return Completion("It is sunny.")

    with openai_server() as server:
        server.respond = respond
        model = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
        chosen = ["--thread", "t", "--model", "openai:m"]
        instead = [(READY, "Sun instead\r"), ("sunny", "")]
        typed = [*instead, (READY, "Rain?\r"), stopped, *[(READY, CTRL_C)] * 2]
        done = cli.on_terminal("chat", *chosen, answers=typed, **model)
        last = done.out.rpartition("Rain?")[2]
        assert (done.code, "sunny" in last, "\nstopping (" in last, "stopping (" in last) == (130, 0, 0, 1)
        asked = len(server.requests)
        assert "cut off. Say what to do now, or /resume.\n" in cli.run("chat", "-c", **model).out
        assert len(server.requests) == asked
        done = cli.on_terminal("chat", "-c", answers=[(READY, "/resume\r"), stopped, *instead, END], **model)
        is_over.set()
        assert (done.code, cli.said("t", "user")) == (0, ["Sun instead", "Rain?", "Sun instead"])
        ended = cli.on_terminal("chat", "-c", answers=[("It is sunny.", ""), END], **model)
    assert "> Sun instead" in ended.out


@pytest.mark.slow
def test_the_arguments_of_a_call_stand_there_to_be_edited(cli: CommandLine) -> None:
    """A comma at the end is a fault; without it, two characters become one, and Enter is taken."""
    to_the_end = "\x1b[1;5F"
    mended = f'{to_the_end}\x7f\x1b[A\x1b[F\x7f\x7f!"\r'
    typed = [(READY, "Note it\r"), (QUESTION, "e\n"), ("draft", f"{to_the_end},\r"), ("not JSON", "")]
    typed += [("draft", mended), ("tokens", ""), END]
    done = cli.on_terminal("chat", "--model", cli.script(WRITE, "Done."), answers=typed)
    assert done.code == 0
    assert (cli.workspace / "note.txt").read_text() == "draf!"


@pytest.mark.slow
def test_what_is_typed_before_a_question_is_no_answer_to_it(cli: CommandLine) -> None:
    """The first line would approve the call; the second Enter would end the editing of its arguments."""
    typed = [
        (READY, "Note it\r\r"),
        (QUESTION, "e\n"),
        ("draft", CTRL_C),
        ("? ", "r\n"),
        ("Not done.", ""),
        END,
    ]
    cli.on_terminal("chat", "--model", cli.script(WRITE, "Not done."), answers=typed)
    asked = [("", "a\n"), (QUESTION, "r\n")]
    done = cli.on_terminal("ask", "Note", "--model", cli.script(WRITE, "Not done."), answers=asked)
    assert "Not done." in done.out
    assert not (cli.workspace / "note.txt").exists()
