"""Commands in the text of a skill: which text is one, and which arguments may stand in it."""

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.format.dynamic import command_with, dynamic_commands, named_files
from tests.examples import trying


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- Branch: !`git branch` and !` ls `", ["git branch", "ls"]),
        ("```\n!`git status`\n```", ["git status"]),
        ("```!\ngit status\ngit log\n```\n!`ls`", ["git status\ngit log", "ls"]),
        ("1. See\n   ```! bash\n   ls\n   ```", ["   ls"]),
        *((text, []) for text in ("KEY=!`ls`", "(!`ls`)", "!` `", "!`ls\n-l`", "Write `` !`ls` `` so.")),
        *((text, []) for text in ("Use ` !` and ` x`.", "Use `x!` and `y`", "```!\nls", "```!js\nls\n```")),
        *((text, []) for text in ("````markdown\n```!\nls\n```\n!`ls`\n````", "```yaml\n!`ls`\n```")),
    ],
)
def test_a_command_is_at_the_start_of_a_line_or_after_a_blank(text: str, found: list[str]) -> None:
    assert [each.command for each in dynamic_commands(text)] == found


@pytest.mark.parametrize(
    "line", ["```" + " " * 100_000 + "x", "".join("`" * (n % 700 + 1) + "a" for n in range(2_000))]
)
def test_no_line_takes_long_to_read(line: str) -> None:
    text, began = f"!`ls` and @a.md\n{line}", time.monotonic()
    assert [each.command for each in dynamic_commands(text)] == ["ls"]
    assert named_files(text) == ["a.md"]
    assert time.monotonic() - began < 2


marks = st.sampled_from(["!`", "`", "```", "```!", "~~~!", "\n", " ", "a", "é", "!", "$0"])


@trying(100)
@given(st.lists(marks).map("".join))
def test_commands_stand_where_they_say_and_apart(text: str) -> None:
    end = 0
    for each in dynamic_commands(text):
        assert end <= each.start < each.end <= len(text)
        assert each.command.strip("\n") in text[each.start : each.end]
        assert text[each.start : each.end].lstrip(" ").startswith(("!`", "```", "~~~"))
        end = each.end


@pytest.mark.parametrize(
    ("command", "arguments", "made"),
    [
        ("git diff $ARGUMENTS", "main..dev src/a-b.py", "git diff main..dev src/a-b.py"),
        ('gh pr view "$0" --json $1', "12 title", 'gh pr view "12" --json title'),
        ("git log ${who}..HEAD", "main", "git log main..HEAD"),
        ("git diff ${ARGUMENTS:-main} $HOME", "a; b", "git diff ${ARGUMENTS:-main} $HOME"),
        ("ls $0 $ARGUMENTS", " ", "ls $0 "),
        ("X=$ARGUMENTS env", "a", "X=a env"),
        ("$HOME/x $0; $else", "a", "$HOME/x a; $else"),
        ("X=$ARGUMENTS env", "a reboot", None),
        *((command, "reboot", None) for command in ("$0 x", '"$0"', "ls; $ARGUMENTS", "ls &&\n  $0")),
        *((command, "reboot", None) for command in ("(${who})", "ls `$0`", "x=$(\n$0)", "{ $0; }")),
    ],
)
def test_plain_words_are_put_into_a_command_and_never_are_one(
    command: str, arguments: str, made: str | None
) -> None:
    assert command_with(command, arguments, ["who"]) == made


HOSTILE = (
    *("; rm -rf .", "a;b", "a&b", "a|b", "`id`", "$(id)", "a\nb", "a\tb", "'a'", '"', "a\\", "-f", "a --x"),
    *("*", "~", "{a,b}", "<x", ">x", "#", "!x", "a=b", "%1", "(", "a  b", "a\u00a0b", "\x00"),
)


@pytest.mark.parametrize("arguments", HOSTILE)
@pytest.mark.parametrize("place", ["$ARGUMENTS", '"$ARGUMENTS"', "'${ARGUMENTS}'", "$0", "$who", "$(ls $0)"])
def test_other_arguments_are_put_into_none(arguments: str, place: str) -> None:
    assert command_with(f"echo {place}", arguments, ["who"]) is None


@trying(200)
@given(st.text(max_size=20))
def test_what_is_put_into_a_command_is_words_for_the_shell_too(arguments: str) -> None:
    if made := command_with("echo $ARGUMENTS", arguments):
        assert shlex.split(made) == ["echo", *arguments.split()]
        assert not {*made} & {*"();<>|&`$!*?{}~#=%\n"}
