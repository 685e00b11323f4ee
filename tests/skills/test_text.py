"""Text of others, before it is shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.text import clean_text, escape_markup, is_clean, normalize_line_ends, one_line


@pytest.mark.parametrize(
    "hidden",
    ["\0", "\x1b", "\x7f", "\x9f", "\u200b", "\u200d", "\u2060", "\ufeff", "\u202e", "\u2066", "\u061c",
     "\u00ad", "\u2028", "\u3164", "\ufe00", "\U000e0041", "\U000e0101"],
)  # fmt: skip
def test_what_nobody_can_see_is_removed_and_counted(hidden: str) -> None:
    assert clean_text(f"a{hidden}b{hidden}") == ("ab", 2)


@pytest.mark.parametrize("text", ["plain", "tab\tand\nline", "é漢字", "☀\ufe0f", "a\u00a0b"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert clean_text(text) == (text, 0)


@given(st.text())
def test_cleaning_leaves_no_control_or_format_character_and_is_done_once(text: str) -> None:
    cleaned = clean_text(text).text

    assert clean_text(cleaned) == (cleaned, 0)
    assert not [each for each in cleaned if unicodedata.category(each) == "Cc" and each not in "\n\t"]
    assert not set(cleaned) & {chr(code) for code in range(0xE0000, 0xE1000)}


@given(st.text())
def test_bytes_that_count_as_clean_need_no_cleaning(text: str) -> None:
    if is_clean(text.encode("utf-8", "surrogatepass")):
        assert clean_text(normalize_line_ends(text)) == (text, 0)


@given(st.text())
def test_one_line_is_one_bounded_line(text: str) -> None:
    line = one_line(text, 10)

    assert len(line) <= 10
    assert len(line.splitlines()) <= 1
    assert line == line.strip()


def test_a_cut_line_shows_that_it_was_cut() -> None:
    assert one_line("a  b\n c") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


def test_markup_cannot_close_an_element() -> None:
    assert escape_markup("</skill> & <b>") == "&lt;/skill&gt; &amp; &lt;b&gt;"
    assert normalize_line_ends("a\r\nb\rc\u2028d\x85e") == "a\nb\nc\nd\ne"
