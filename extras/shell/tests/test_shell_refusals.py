"""What of a shell's command line is not understood: each check by itself."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from skills_agent.shell import shell
from skills_agent.shell.commands import MAX_FOLDERS
from skills_agent.shell.shell import MAX_COMMANDS, MAX_DEPTH, MAX_LENGTH, MAX_SIGNS, take_apart

LIMITED: dict[int, Callable[[int], str]] = {
    MAX_LENGTH: lambda number: "a" * number,
    MAX_SIGNS: lambda number: f"aa '{';' * number}'",
    MAX_COMMANDS: lambda number: "; ".join(["aa"] * number),
    MAX_DEPTH: lambda number: f"x={'$(' * number}aa{')' * number}",
}


@pytest.mark.parametrize("most", LIMITED)
def test_a_line_over_a_limit_is_not_taken_apart(most: int) -> None:
    assert take_apart(LIMITED[most](most))
    assert take_apart(LIMITED[most](most + 1)) is None


@pytest.mark.parametrize(
    "line",
    [
        "aa \x01", "aa \ud800", "! ((1))", "aa $((x))", "aa $[1]", 'aa "$[1]"', "x[$(bb)]=2",
        "aa {fd}>x", "a\\\na", "aa $'\\c'", "aa $'\\0'", "aa $'\\xe9'", "aa ``b", "aa <<E\na\\\nE",
        "aa <<E\n$(bb)\nE", "aa <<$\na\n$", ";;", "$ $", '$ "b"', "aa (bb)", "(aa) >f bb",
        "(aa) >f x=1", "aa `bb 'a'`", "aa $(bb <<E\na\nE\n)", "aa $(case a in a) bb;; esac)", "}",
        "case x in a) >f esac", "[[ a >b ]]", "[[ a && b ]]", "time -x aa", "aa >&'$(bb)'", "aa <\nbb",
        ">1>&2",
    ],
)  # fmt: skip
def test_what_could_mean_something_else_is_not_taken_apart(line: str) -> None:
    assert take_apart(line) is None


@pytest.mark.parametrize(
    "change",
    [
        "cd", "cd a b", "cd ''", "cd -", "cd -P", "cd $x", "cd ../a", "cd a/../..", "pushd a", "popd",
        "; ".join(["cd a"] * MAX_FOLDERS), "for x in a b; do aa; cd b; done",
    ],
)  # fmt: skip
def test_after_a_change_of_folder_that_is_not_followed_no_folder_is_known(change: str) -> None:
    commands = take_apart(f"{change}; cd b; aa")
    assert commands is not None
    assert commands[-1].folders is None
    if change.startswith("for"):  # nor is one before it
        assert {each.folders for each in commands if each.words} == {None}


class Tree:
    """What a grammar says of a line: its nodes, each as `type start end`."""

    has_error = False
    type = "program"

    def __init__(self, line: str, nodes: str) -> None:
        self.root_node = self
        self.children = [self.node(line, *each.split()) for each in nodes.split(", ")]

    @staticmethod
    def node(line: str, kind: str, start: str, end: str) -> SimpleNamespace:
        text, is_named = line[int(start) : int(end)].encode(), kind[0].isalpha()
        places = {"start_byte": int(start), "end_byte": int(end)}
        return SimpleNamespace(type=kind, text=text, children=[], is_named=is_named, **places)


ERRORS = {
    "an operator between words": ("aa;bb", "word 0 2, word 3 5"),
    "two words for one": ("aab", "word 0 2, word 2 3"),
    "words over each other": ("aa b", "word 0 3, word 2 4"),
    "half a sign": ("aa && b", "word 0 2, & 3 4, & 4 5, word 6 7"),
    "half a comment": ("aa #b;c", "word 0 2, comment 3 5, ; 5 6, word 6 7"),
    "a comment that is a word": ("aa #b", "word 0 2, word 3 5"),
    "commands for the lines of a here-document": (
        "aa <<E\nb",
        "word 0 2, << 3 5, heredoc_start 5 6, word 7 8",
    ),
    "a command before the lines of a here-document": (
        "aa <<E\nbb\nE",
        "word 0 2, << 3 5, heredoc_start 5 6, word 7 9, heredoc_body 10 10, heredoc_end 10 11",
    ),
    "no lines of it": ("aa <<E", "word 0 2, << 3 5, heredoc_start 5 6"),
    "lines of none": ("aa\nE", "word 0 2, heredoc_body 3 3, heredoc_end 3 4"),
    "an open single quote": ("aa 'b", "word 0 2, raw_string 3 5"),
    "an open double quote": ('aa "b', "word 0 2, string 3 5"),
    "a sign in a word": ("aa b;c", "word 0 2, word 3 6"),
    "a backslash at the end": ("aa b\\", "word 0 2, word 3 5"),
    "a substitution that nobody reads": ("aa $(b)", "word 0 2, word 3 7"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_nothing_rests_on_a_grammar_that_errs(error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line, nodes = ERRORS[error]
    tree = Tree(line, nodes)
    monkeypatch.setattr(shell, "_parser", lambda: SimpleNamespace(parse=lambda _: tree))
    shell.read_line.cache_clear()
    assert take_apart(line) is None
    shell.read_line.cache_clear()
