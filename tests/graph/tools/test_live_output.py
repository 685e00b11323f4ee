"""What a running program prints, as clients hear it: whole lines, not too soon, too often or too much."""

import pytest

from skills_agent.graph.tools.live_output import MAX_PIECE, MAX_TOLD, LiveOutput

EURO = "€\n".encode()


class Heard:
    """A live output with a clock that is set by hand."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str, int]] = []
        self.now = 0.0
        self.live = LiveOutput(lambda *piece: self.pieces.append(piece), lambda: self.now)

    def at(self, seconds: float, text: bytes = b"") -> list[str]:
        """Have a text come at a time, and return what is told then."""
        self.now = seconds
        self.live.add("stdout", text)
        self.live.tick()
        told = [text for _, text, _ in self.pieces]
        self.pieces.clear()
        return told


@pytest.mark.parametrize(
    "story",
    [
        pytest.param([(1, b"Continue? ", []), (1.5, b"", []), (2, b"", ["Continue? "])], id="a question"),
        pytest.param([(1, b"\x1b[31mred\x1b[0m\r\n10%\r20%\r30%\n", ["red\n30%\n"])], id="a terminal"),
        pytest.param([(1, EURO[:1], []), (2, EURO[1:], ["€\n"])], id="half a character"),
        pytest.param([(0.5, b"one\ntw", []), (1, b"", ["one\n"]), (1.1, b"o\n", [])], id="a beat"),
    ],
)
def test_it_is_told_in_whole_lines_as_on_a_terminal(story: list[tuple[float, bytes, list[str]]]) -> None:
    heard = Heard()
    assert [heard.at(seconds, text) for seconds, text, _ in story] == [told for _, _, told in story]


def test_the_rest_is_told_of_a_program_that_was_told_of_while_it_ran() -> None:
    soon, long = Heard(), Heard()
    assert soon.at(0.9, b"one\ntwo\n") == []
    assert long.at(1.0, b"one\ntwo") == ["one\n"]
    for each in (soon, long):
        each.live.end()
    assert (soon.pieces, long.pieces) == ([], [("stdout", "two", 0)])


def test_of_what_comes_too_fast_the_end_is_told_and_how_much_is_missing() -> None:
    heard = Heard()
    text = "".join(f"line {number}\n" for number in range(5_000))
    heard.now = 2.0
    heard.live.add("stderr", text.encode())
    heard.live.tick()
    assert heard.pieces == [("stderr", text[-MAX_PIECE:], len(text) - MAX_PIECE)]
    told = "".join(text for beat in range(1_000) for text in heard.at(3 + beat, b"x" * 999 + b"\n"))
    assert MAX_TOLD - MAX_PIECE <= len(told) <= MAX_TOLD + 1_100
    assert told.endswith("\n[what follows is not shown while it runs]")
