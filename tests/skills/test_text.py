"""Text of others, before it is shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.text import clean_lines, clean_text, escape_markup, one_line


@pytest.mark.parametrize(
    "hidden",
    ["\0", "\x1b", "\x7f", "\x9f", "\u200b", "\u200d", "\u2060", "\ufeff", "\u202e", "\u2066", "\u061c",
     "\u00ad", "\u2028", "\u3164", "\ufe00", "\U000e0041", "\U000e0101"],
)  # fmt: skip
def test_what_nobody_can_see_is_removed_and_counted(hidden: str) -> None:
    assert clean_text(f"a{hidden}b{hidden}") == ("ab", 2)


@pytest.mark.parametrize(
    "text",
    [
        *("plain", "tab\tand\nline", "é漢字", "☀\ufe0f", "a\u00a0b"),
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: "I want"
        "\u0915\u094d\u200d\u0937",  # Hindi: a half form
        "\u0d28\u0d4d\u200d ",  # Malayalam: a chillu at the end of a word
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\u2764\ufe0f\u200d\U0001f525",
        "\U0001f468\U0001f3fd\u200d\U0001f4bb",
    ],
)
def test_what_can_be_seen_stays_and_so_do_joiners_that_a_language_or_an_emoji_needs(text: str) -> None:
    assert clean_text(text) == (text, 0)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("ig\u200cno\u200dre", "ignore"), ("\u0633\u200ca", "\u0633a"),
        ("\u0633\u200c\u200c\u200d", "\u0633"), ("\u200c\u0633", "\u0633"),
        ("\u0633\u200c\u00ada", "\u0633a"), ("\U0001f469\u200da", "\U0001f469a"),
    ],
)  # fmt: skip
def test_joiners_that_nothing_needs_are_removed(text: str, cleaned: str) -> None:
    assert clean_text(text) == (cleaned, len(text) - len(cleaned))


@given(st.text() | st.text("a1 \u0633\u0915\u094d\u200c\u200d\u00ad\u202e\ufe0f\u2764\U0001f469"))
def test_cleaning_leaves_no_control_or_format_character_and_is_done_once(text: str) -> None:
    cleaned = clean_text(text).text

    assert clean_text(cleaned) == (cleaned, 0)
    assert not [each for each in cleaned if unicodedata.category(each) == "Cc" and each not in "\n\t"]
    assert not set(cleaned) & {chr(code) for code in range(0xE0000, 0xE1000)}


@given(st.text())
def test_one_line_is_one_bounded_line(text: str) -> None:
    line = one_line(text, 10)

    assert len(line) <= 10
    assert len(line.splitlines()) <= 1
    assert line == line.strip()


def test_a_cut_line_shows_that_it_was_cut_and_markup_cannot_close_an_element() -> None:
    assert one_line("a  b\n c") == "a b c"
    assert (one_line("abcdef", 4), one_line("abcd", 4)) == ("abc…", "abcd")
    assert clean_lines("a\r\nb\rc\u2028d\x85e").text == "a\nb\nc\nd\ne"
    assert escape_markup("</skill> & <b>") == "&lt;/skill&gt; &amp; &lt;b&gt;"
