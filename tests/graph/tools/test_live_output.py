"""What a running program prints, as clients hear it: whole lines, not too soon, too often or too much."""

from skills_agent.graph.tools.live_output import MAX_PIECE, MAX_TOLD, LiveOutput


class Heard:
    """A live output with a clock that is set by hand."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str, int]] = []
        self.now = 0.0
        self.live = LiveOutput(lambda *piece: self.pieces.append(piece), lambda: self.now)

    def at(self, seconds: float, text: str | bytes = b"") -> list[tuple[str, str]]:
        self.now = seconds
        self.live.add("stdout", text.encode() if isinstance(text, str) else text)
        self.live.tick()
        told = [(stream, text) for stream, text, _ in self.pieces]
        self.pieces.clear()
        return told


def test_a_program_that_ends_soon_is_told_of_by_its_result_alone() -> None:
    heard = Heard()
    assert heard.at(0.9, "one\ntwo\n") == []
    heard.live.end()
    assert heard.pieces == []


def test_a_long_one_is_told_in_whole_lines_and_to_its_end() -> None:
    heard = Heard()
    assert heard.at(0.5, "one\ntw") == []
    assert heard.at(1.0) == [("stdout", "one\n")]
    assert heard.at(1.1, "o\nthree\nfou") == []
    assert heard.at(1.3) == [("stdout", "two\nthree\n")]
    heard.live.end()
    assert heard.pieces == [("stdout", "fou", 0)]


def test_a_question_without_a_line_end_is_told_a_little_later() -> None:
    heard = Heard()
    assert heard.at(1.0, "Continue? ") == []
    assert heard.at(1.5) == []
    assert heard.at(2.0) == [("stdout", "Continue? ")]


def test_of_what_comes_too_fast_the_end_is_told_and_how_much_is_missing() -> None:
    heard = Heard()
    text = "".join(f"line {number}\n" for number in range(5_000))
    heard.now = 2.0
    heard.live.add("stderr", text.encode())
    heard.live.tick()
    assert heard.pieces == [("stderr", text[-MAX_PIECE:], len(text) - MAX_PIECE)]


def test_one_program_does_not_fill_a_stream() -> None:
    heard = Heard()
    told = "".join(text for beat in range(1_000) for _, text in heard.at(1 + beat, "x" * 999 + "\n"))
    assert MAX_TOLD <= len(told) <= MAX_TOLD + 1_100
    assert told.endswith("\n[what follows is not shown while it runs]")


def test_it_reads_as_on_a_terminal() -> None:
    heard = Heard()
    assert heard.at(1, "\x1b[31mred\x1b[0m\r\n10%\r20%\r30%\n") == [("stdout", "red\n30%\n")]


def test_a_character_that_is_split_between_two_pieces_is_whole() -> None:
    heard = Heard()
    euro = "€\n".encode()
    assert heard.at(1, euro[:1]) == []
    assert heard.at(2, euro[1:]) == [("stdout", "€\n")]
