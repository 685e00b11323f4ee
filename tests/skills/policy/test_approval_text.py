"""The description of a question: nothing in it is hidden, and nothing in it leaves its place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.policy.approval_text import (
    MAX_SHOWN,
    MAX_WIDTH,
    Content,
    code,
    deceptions,
    describe,
    escape_markdown,
    folded,
    is_whole,
    plain,
    whole,
)

HOSTILE = st.text(st.one_of(st.characters(), st.sampled_from("`~<>[]!*#\n\r\u2028\u202e-"))) | st.text("`\n~")


@given(HOSTILE)
def test_no_content_ends_the_block_that_it_stands_in(text: str) -> None:
    """The rule of CommonMark: a fence ends at a line of at least as many backticks, and at no other."""
    description = describe([], [Content("a file:", text, "diff")], "write_file changes files.")
    if not text.strip("\n"):
        return
    fence, *lines = description.split("\n\n", 1)[1].split("\n")
    ticks = fence.removesuffix("diff")
    end = next(at for at, line in enumerate(lines) if re.fullmatch(rf" {{0,3}}`{{{len(ticks)},}}\s*", line))
    assert "\n".join(lines[:end]) == folded(text, "diff")
    assert lines[end + 1 :][-1] == "write_file changes files."


@given(HOSTILE)
def test_no_word_ends_the_code_span_that_it_stands_in(text: str) -> None:
    """The rule of CommonMark: a span ends at a run of just as many backticks."""
    span = code(text)
    ticks = re.match("`+", span)[0]  # type: ignore[index]
    inside = span[len(ticks) : -len(ticks)]
    assert span.endswith(ticks)
    assert ticks not in re.findall("`+", inside)
    assert "\n" not in span


@given(HOSTILE)
def test_a_sentence_has_no_markup_of_others(text: str) -> None:
    assert "\n" not in escape_markdown(text)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*\[\]<>&|]", escape_markdown(text).replace("\\\\", ""))


@pytest.mark.parametrize(
    ("text", "language", "shown"),
    [
        ("one\n" + "\n" * 80 + "evil\n\n\ntwo", "", "one\n<80 blank lines>\nevil\n\n\ntwo"),
        ("+a\n" + "+\n" * 80 + "+b", "diff", "+a\n+<80 blank lines>\n+b"),
        ("a \nb\t", "", "a<U+0020>\nb<U+0009>"),
        ("-a\n+a  \n \n+ ", "diff", "-a\n+a<U+0020><U+0020>\n \n+<U+0020>"),
        ("one\n" + "   \n" * 80 + "two", "", "one\n" + "<U+0020><U+0020><U+0020>\n" * 80 + "two"),
    ],
)
def test_blank_lines_push_nothing_out_of_sight_and_blanks_at_ends_of_lines_are_shown(
    text: str, language: str, shown: str
) -> None:
    assert folded(text, language) == shown
    if "80" not in shown:
        assert whole([Content("", text, language)]) == shown


@pytest.mark.parametrize("text", ["x" * (MAX_SHOWN + 1), "\u202e" * 100_000, "\n" * (MAX_SHOWN + 1) + "x"])
def test_what_is_too_long_says_that_it_cannot_be_approved(text: str) -> None:
    description = describe([], [Content("a:", "first"), Content("b:", text), Content("c:", "last")], "Risk.")
    assert not is_whole(description)
    assert "**Not all is shown:**" in description
    assert len(description) < MAX_SHOWN + 1_000
    assert "Not all is shown: " in plain(description)


def test_a_name_that_is_cut_says_how_much_is_left_and_shows_blanks_and_backticks() -> None:
    assert code("x" * 1_000) == f"`{'x' * MAX_WIDTH} [… 600 more characters]`"
    assert code(" a  b ") == "`<U+0020>a <U+0020>b<U+0020>`"
    description = describe([], [Content(f"{code('```')}:", "a\nb"), Content("", "c")], "Risk: write.")
    assert plain(description).split("\n") == ["```` ``` ````:", "    a", "    b", "    c", "Risk: write."]


def test_nothing_of_a_sentence_is_taken_for_emphasis_or_a_formula() -> None:
    """A folder `/__init__/` lost its strokes in a chat UI, and one between `$` was drawn as a formula."""
    sentence = "write_file: /a/__init__/_x_ $\\phantom{y}$ ~a~"
    assert escape_markdown(sentence) == r"write_file: /a/\_\_init\_\_/\_x\_ \$\\phantom{y}\$ \~a\~"
    assert plain(escape_markdown(sentence)) == sentence


def test_a_terminal_shows_the_same_without_the_marks_of_markdown() -> None:
    text = "- **Warning:** no\n```\n\n" + "z\n" * 100
    description = describe(["No sandbox."], [Content("`a`:", text)], "write_file < 1.")
    lines = plain(description, "; v: view all").split("\n")
    assert lines[:6] == ["Warning: No sandbox.", "`a`:", "    - **Warning:** no", "    ```", "    ", "    z"]
    assert lines[-2:] == ["… 43 more lines; v: view all", "write_file < 1."]


@pytest.mark.parametrize(
    ("path", "text", "warning"),
    [
        (
            "sсripts/a.py",
            "x",
            "Mixed scripts: these characters only look like others: с (U+0441 CYRILLIC SMALL",
        ),
        ("a\u200bb", "x", "1 character that cannot be seen is shown as a mark such as `<U+200B>`."),
        ("", f"x = 1{' ' * 80}; evil()", ""),
    ],
)
def test_what_deceives_or_is_pushed_out_of_sight_is_warned_about(path: str, text: str, warning: str) -> None:
    (said,) = deceptions(path, [Content(code(path), text)])
    assert said.startswith(warning)
    assert not deceptions("", [Content("", f"{' ' * 80}x = 1\n\n{' ' * 80}")])
