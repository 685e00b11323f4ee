"""What a person is shown: everything that is there, and nothing that only seems to be."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.visible import hidden_in, lookalikes, visible, visible_line

UNSEEN = (
    "\u200b\u200d\u202e\u2066\u2069\u00ad\u00a0\u3000\ufe0f\ufeff\u2800\u3164\r\x1b\x07\x9b\u2028\U000e0041"
)
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(UNSEEN + "<U+>0123ABab/\n\t")))


def read_back(shown: str) -> str:
    return re.sub(r"<U\+([0-9A-F]{4,6})>", lambda match: chr(int(match[1], 16)), shown)


@given(TEXTS)
def test_nothing_that_is_shown_is_hidden_and_it_says_exactly_which_text_it_is(text: str) -> None:
    shown, line = visible(text), visible_line(text)
    assert read_back(shown) == read_back(line) == text
    categories = {unicodedata.category(each) for each in set(shown) - {"\n", "\t"}}
    assert not categories & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert not set(shown) & (set(UNSEEN) - {"\n", "\t"})
    assert not set(line) & {"\n", "\t"}


@given(st.text(), st.sampled_from(UNSEEN), st.text())
def test_a_character_that_nobody_can_see_makes_a_difference(start: str, unseen: str, end: str) -> None:
    assert visible(start + unseen + end) != visible(start + end)
    assert f"<U+{ord(unseen):04X}>" in visible(start + unseen + end)


@given(TEXTS)
def test_prose_hides_no_more_than_joiners_and_pictures_need(text: str) -> None:
    shown = visible(text, "prose")
    assert not set(shown) & set("\u200b\u202e\u2066\u2069\u00ad\ufeff\r\x1b\x07\x9b\u2028\U000e0041")


@pytest.mark.parametrize(
    "text",
    [
        "👩‍💻 done ⚠️", "می‌خواهم", "क्‍ष", "1️⃣",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "à la carte :\u00a0x",
    ],
)  # fmt: skip
def test_what_languages_and_emoji_need_stays_in_prose(text: str) -> None:
    assert visible(text, "prose") == text
    assert not list(hidden_in(text, "prose"))


@pytest.mark.parametrize(
    ("text", "alike"),
    [
        ("sсripts/report.py", "с"), ("сору/a.py", "сору"), ("a∕etc∕passwd", "∕"), ("rm \u037e x", "\u037e"),
        ("𝐫𝐦 -rf", "𝐫𝐦"), ("Κelvin.txt", "Κ"),
        ("scripts/report.py", ""), ("Отчёт о продажах.txt", ""), ("Tシャツ.csv", ""), ("報告書v2.pdf", ""),
        ("naïve.txt", ""), ("m².csv", ""), ("10µs.log", ""), ("שלום.txt", ""),
    ],
)  # fmt: skip
def test_letters_and_signs_that_seem_to_be_others_are_named_and_no_names_of_other_languages(
    text: str, alike: str
) -> None:
    assert lookalikes(text) == alike


@pytest.mark.parametrize("text", ["Việt", "e\u0323\u0302", "कां र्कि", "שָּׁלוֹם", "ที่นี่", "བསྒྲུབས"])
def test_marks_that_languages_need_stay_and_those_that_would_cover_other_lines_do_not(text: str) -> None:
    """A letter with hundreds of accents is drawn over the lines above it: the warning, the path."""
    assert visible(unicodedata.normalize("NFD", text)) == unicodedata.normalize("NFD", text)
    assert visible("a" + "\u0301" * 7) == "a" + "\u0301" * 4 + "<U+0301>" * 3
    assert visible("\u0338x `\u0301") == "<U+0338>x `<U+0301>"


def test_where_hidden_characters_stand_in_a_file() -> None:
    text = "\ufeffone\r\n\ftwo ⚠️\nthree\u200b\u200b\n\u202efour\n"
    assert list(hidden_in(text, "program")) == [(3, "<U+200B>"), (3, "<U+200B>"), (4, "<U+202E>")]


def test_a_direction_mark_belongs_into_lines_that_run_from_right_to_left() -> None:
    assert not list(hidden_in("שלום!\u200f", "prose"))
    assert list(hidden_in("hello!\u200f", "prose"))
    assert list(hidden_in("x = 'שלום!\u200f'", "program"))
    assert list(hidden_in("שלום \u202e", "prose"))
