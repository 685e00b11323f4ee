"""What a text holds, and what people read where it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.evals.cases.case import ExpectedText
from skills_agent.evals.cases.errors import PatternError
from skills_agent.evals.cases.patterns import compile_pattern
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.text_checks import check_text


def results(expected: ExpectedText, text: str) -> list[CheckResult]:
    return list(check_text(expected, text, "The answer", "answer"))


def only(expected: ExpectedText, text: str) -> CheckResult:
    (result,) = results(expected, text)
    return result


@pytest.mark.parametrize(
    ("expected", "text", "passes"),
    [
        (ExpectedText(contains=("total",)), "The total is 3", True),
        (ExpectedText(contains=("Total",)), "The total is 3", False),
        (ExpectedText(contains=("Total",), ignore_case=True), "The total is 3", True),
        (ExpectedText(contains=("STRASSE",), ignore_case=True), "Straße", True),
        (ExpectedText(contains=("a\nb",)), "a\r\nb", True),
        (ExpectedText(contains_any=("x", "3")), "The total is 3", True),
        (ExpectedText(contains_any=("x", "y")), "The total is 3", False),
        (ExpectedText(not_contains=("secret",)), "nothing", True),
        (ExpectedText(not_contains=("secret",)), "the secret", False),
        (ExpectedText(regex=(r"\d+ units$",)), "All: 12 units\n\n", True),
        (ExpectedText(regex=(r"^All",)), "x\nAll", False),
        (ExpectedText(regex=(r"(?m)^All",)), "x\nAll", True),
        (ExpectedText(regex=(r"ALL",), ignore_case=True), "all", True),
        (ExpectedText(not_regex=(r"\d",)), "none", True),
        (ExpectedText(not_regex=(r"\d",)), "1", False),
        (ExpectedText(equals="a \nb"), "a\nb  \n", True),
        (ExpectedText(equals="a\nb"), "a\n b", False),
        (ExpectedText(equals="A", ignore_case=True), "a", True),
        (ExpectedText(equals=""), " \n", True),
    ],
)
def test_a_text_is_held_against_what_is_expected(expected: ExpectedText, text: str, passes: bool) -> None:
    assert only(expected, text).passed is passes


def test_each_part_is_a_result_of_its_own() -> None:
    expected = ExpectedText(
        contains=("a", "b"),
        contains_any=("c", "d"),
        not_contains=("e",),
        regex=("f",),
        not_regex=("g",),
        equals="h",
    )
    assert [each.text for each in results(expected, "a c")] == [
        'The answer contains "a".',
        'The answer contains "b".',
        'The answer contains one of "c", "d".',
        'The answer does not contain "e".',
        'The answer matches "f".',
        'The answer does not match "g".',
        'The answer is "h".',
    ]


def test_what_was_found_is_shown_where_it_stands() -> None:
    text = "x" * 1_000 + " the secret is 42 " + "y" * 1_000
    result = only(ExpectedText(not_contains=("secret",)), text)
    assert "the secret is 42" in result.evidence
    assert len(result.evidence) < 200
    assert only(ExpectedText(contains=("a",)), "").evidence == "It is empty."
    assert only(ExpectedText(contains=("a",)), "Nothing here").evidence == 'It begins with "Nothing here"'


def test_where_two_texts_differ_is_shown() -> None:
    result = only(ExpectedText(equals="a,1\nb,2\nc,3"), "a,1\nb,5\nc,3")
    assert result.evidence.splitlines() == ["Line 2 differs:", " a,1", "-b,2", "+b,5", " c,3"]
    assert only(ExpectedText(equals="a\nb"), "a").evidence == 'Line 2 is missing: "b"'
    assert only(ExpectedText(equals="a"), "a\nb").evidence == 'Line 2 is too much: "b"'
    long = only(ExpectedText(equals="x" * 300 + "a"), "x" * 300 + "b").evidence
    assert long.startswith("Line 1 differs from column 301: expected")
    assert "xa" in long
    assert "xb" in long


@pytest.mark.parametrize(
    ("pattern", "advice"),
    [
        ("(?=a)b", "no lookaround"),
        ("(?<!a)b", "no lookaround"),
        (r"(a)\1", "no backreferences"),
        ("(?P<x>a)(?P=x)", "no backreferences"),
        (r"a\Z", r"`\z`"),
        ("(?>a)", "no atomic groups"),
        ("a++", "no possessive quantifiers"),
        ("a{2000}", "1,000 times"),
        ("[", "missing ]"),
        ("\ud800", "no Unicode text"),
    ],
)
def test_a_pattern_that_re2_lacks_is_told_in_one_sentence(pattern: str, advice: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert advice in str(caught.value)
    for expected in (ExpectedText(regex=(pattern,)), ExpectedText(not_regex=(pattern,))):
        result = only(expected, "a")
        assert not result.passed
        assert advice in result.evidence


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not only(ExpectedText(regex=("(a+)+$",)), "a" * 50_000 + "b").passed


def test_text_that_cannot_be_written_is_read() -> None:
    assert only(ExpectedText(regex=("b",)), "a\udc80b").passed


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_failure_has_short_evidence(one: str, other: str) -> None:
    expected = ExpectedText(contains=(one,), not_contains=(one,), equals=one)
    for result in results(expected, other):
        assert result.passed or result.evidence
        assert len(result.evidence) <= 500
        assert not set(result.evidence + result.text) & set("\x1b\u202e\x00")
    assert only(ExpectedText(equals=one), one).passed
