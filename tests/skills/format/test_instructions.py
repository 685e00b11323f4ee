"""Instructions with the arguments of an activation in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.format.instructions import fill_in
from tests.examples import trying


@pytest.mark.parametrize(
    ("written", "arguments", "names", "filled"),
    [
        ("All: $ARGUMENTS.", 'a "b c"', [], 'All: a "b c".'),
        ("$0 $1 $2", 'a "b c"', [], "a b c $2"),
        ("$ARGUMENTS[1], $ARGUMENTS[7]", "a b", [], "b, $ARGUMENTS[7]"),
        (
            "$issue on ${branch}, [$who], $HOME",
            "42 main",
            ["issue", "branch", "who"],
            "42 on main, [], $HOME",
        ),
        (r"\$1 costs $1, \$ARGUMENTS, \$issue", "a b", ["issue"], "$1 costs b, $ARGUMENTS, $issue"),
        (r"\\$0 and \$HOME", "a", [], r"\\a and \$HOME"),
        ("$ARGUMENTS", "$0 $1 \\1", [], "$0 $1 \\1"),
        ("It's $0 now", "don't", [], "It's don't now"),
        ("awk '{print $1}' $1", "a b", [], "awk '{print $1}' b"),
        ("Nothing.", "a b", [], "Nothing.\n\nARGUMENTS: a b"),
        ("Only $7.", "a b", [], "Only $7.\n\nARGUMENTS: a b"),
        ("Nothing.", "  ", [], "Nothing."),
        ("$ARGUMENTS_FILE $10", "a", [], "$ARGUMENTS_FILE $10\n\nARGUMENTS: a"),
        ("[$ARGUMENTS] [$name] [$0]", "", ["name"], "[] [] [$0]"),
    ],
)
def test_arguments_are_filled_in_as_claude_code_does(
    written: str, arguments: str, names: list[str], filled: str
) -> None:
    assert fill_in(written, arguments, names) == filled


@trying(40)
@given(st.text(), st.text(), st.lists(st.from_regex(r"[a-z]{1,5}", fullmatch=True), max_size=3))
def test_filling_in_ends_and_keeps_what_is_no_placeholder(
    text: str, arguments: str, names: list[str]
) -> None:
    plain = text.replace("$", "")
    assert fill_in(plain, arguments, names).startswith(plain)
    fill_in(f"{text}$ARGUMENTS{text}$0", arguments, names)
