"""What of a shell's command line is not understood: each check by itself."""

from collections.abc import Callable, Sequence
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
    """What a grammar says of a line: its nodes, each as type and place."""

    has_error = False
    type = "program"

    def __init__(self, line: str, nodes: Sequence[tuple[str, int, int]]) -> None:
        self.root_node = self
        self.children = [
            SimpleNamespace(
                type=kind, start_byte=start, end_byte=end, text=line[start:end].encode(), children=[],
                is_named=kind[0].isalpha(),
            )
            for kind, start, end in nodes
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "nodes"),
    [
        pytest.param("aa;bb", [("word", 0, 2), ("word", 3, 5)], id="an operator between words"),
        pytest.param("aab", [("word", 0, 2), ("word", 2, 3)], id="two words for one"),
        pytest.param("aa b", [("word", 0, 3), ("word", 2, 4)], id="words over each other"),
        pytest.param("aa && b", [("word", 0, 2), ("&", 3, 4), ("&", 4, 5), ("word", 6, 7)], id="half a sign"),
        pytest.param(
            "aa #b;c", [("word", 0, 2), ("comment", 3, 5), (";", 5, 6), ("word", 6, 7)], id="half a comment"
        ),
        pytest.param("aa #b", [("word", 0, 2), ("word", 3, 5)], id="a comment that is a word"),
        pytest.param(
            "aa <<E\nb", [("word", 0, 2), ("<<", 3, 5), ("heredoc_start", 5, 6), ("word", 7, 8)],
            id="commands for the lines of a here-document",
        ),
        pytest.param(
            "aa <<E\nbb\nE",
            [
                *[("word", 0, 2), ("<<", 3, 5), ("heredoc_start", 5, 6), ("word", 7, 9)],
                *[("heredoc_body", 10, 10), ("heredoc_end", 10, 11)],
            ],
            id="a command before the lines of a here-document",
        ),
        pytest.param("aa <<E", [("word", 0, 2), ("<<", 3, 5), ("heredoc_start", 5, 6)], id="no lines of it"),
        pytest.param(
            "aa\nE", [("word", 0, 2), ("heredoc_body", 3, 3), ("heredoc_end", 3, 4)], id="lines of none"
        ),
        pytest.param("aa 'b", [("word", 0, 2), ("raw_string", 3, 5)], id="an open single quote"),
        pytest.param('aa "b', [("word", 0, 2), ("string", 3, 5)], id="an open double quote"),
        pytest.param("aa b;c", [("word", 0, 2), ("word", 3, 6)], id="a sign in a word"),
        pytest.param("aa b\\", [("word", 0, 2), ("word", 3, 5)], id="a backslash at the end"),
        pytest.param("aa $(b)", [("word", 0, 2), ("word", 3, 7)], id="a substitution that nobody reads"),
    ],
)  # fmt: skip
def test_nothing_rests_on_a_grammar_that_errs(
    line: str, nodes: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(line, nodes)
    monkeypatch.setattr(shell, "_parser", lambda: SimpleNamespace(parse=lambda _: tree))
    shell.read_line.cache_clear()
    assert take_apart(line) is None
    shell.read_line.cache_clear()
