"""What a person types into a chat, by keys through a pipe."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from skills_agent.graph.cli.approval import fault_of_arguments
from skills_agent.graph.cli.prompt import TextPrompt
from skills_agent.graph.cli.prompt_history import MAX_CHARACTERS, MAX_ENTRIES, PrivateHistory

ENTER, ESCAPE, UP, END = "\r", "\x1b", "\x1b[A", "\x1b[F"
LINES = "\r".join(f"line {number}" for number in range(200))


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe:
        yield pipe


def _prompt(keys: PipeInput, history: PrivateHistory | None = None) -> TextPrompt:
    return TextPrompt(history, typed=keys, screen=DummyOutput())


def test_two_hundred_pasted_lines_are_one_message(keys: PipeInput) -> None:
    keys.send_text(f"\x1b[200~{LINES}\x1b[201~{ENTER}")
    assert _prompt(keys).read("> ").splitlines() == LINES.split("\r")


@pytest.mark.parametrize("new_line", [f"{ESCAPE}{ENTER}", f"\\{ENTER}"])
def test_a_message_has_several_lines(keys: PipeInput, new_line: str) -> None:
    keys.send_text(f"one{new_line}two{ENTER}three{ENTER}")
    prompt = _prompt(keys)
    assert prompt.read("> ") == "one\ntwo"
    assert prompt.read("> ") == "three", "what is typed ahead is the next message"


def test_ctrl_c_ends_the_text_and_says_what_it_was(keys: PipeInput) -> None:
    prompt = _prompt(keys)
    keys.send_text("half a thou\x03")
    with pytest.raises(KeyboardInterrupt):
        prompt.read("> ")
    assert prompt.dropped == "half a thou"
    keys.send_text("\x04")
    with pytest.raises(EOFError):
        prompt.read("> ")


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('{"a": 1,\n "b" 2}', 14, "line 2, column 6"),
        ("[1]", 0, "must be a JSON object"),
        ("[" * 100_000, 0, "cannot be read|can be read"),
    ],
)
def test_afault_of_arguments_says_where(text: str, where: int, what: str) -> None:
    fault = fault_of_arguments(text)
    assert fault is not None
    assert fault[0] == where
    assert any(each in fault[1] for each in what.split("|"))
    assert fault_of_arguments('{"a": 1}') is None


def test_what_was_typed_comes_back_in_the_next_chat(keys: PipeInput, tmp_path: Path) -> None:
    file = tmp_path / "state" / "history"
    keys.send_text(f"first\\{ENTER}line two{ENTER} hidden{ENTER}")
    keys.send_text(f"\x1b[200~{'x' * (MAX_CHARACTERS + 1)}\x1b[201~{ENTER}")
    prompt = _prompt(keys, PrivateHistory(file))
    for _ in range(3):
        prompt.read("> ")
    assert [*PrivateHistory(file).load_history_strings()] == ["first\nline two"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_history_keeps_the_newest_and_passes_over_damage(tmp_path: Path) -> None:
    file = tmp_path / "history"
    history = PrivateHistory(file)
    for number in range(MAX_ENTRIES + 5):
        history.store_string(f"entry {number}")
    with file.open("ab") as opened:
        opened.write(b'{"no": "text"}\n\xff\xfe\n"cut o')
    entries = [*PrivateHistory(file).load_history_strings()]
    assert entries[0] == f"entry {MAX_ENTRIES + 4}"
    assert len(entries) <= MAX_ENTRIES
    assert [each.name for each in tmp_path.iterdir()] == ["history"]


def test_a_history_does_not_follow_a_link(tmp_path: Path) -> None:
    aim, file = tmp_path / "aim", tmp_path / "history"
    aim.write_text("mine")
    file.symlink_to(aim)
    PrivateHistory(file).store_string("typed")
    assert aim.read_text() == "mine"
    assert [*PrivateHistory(file).load_history_strings()] == []
