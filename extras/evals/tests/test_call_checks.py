"""Calls of a run, held against those of a case."""

from itertools import permutations
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.evals.cases.call_checks import args_fit, check_calls, pair
from skills_agent.evals.cases.case import ArgsMatch, CallMode, ExpectedCall, ExpectedCalls
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.trajectory import CallStatus, MadeCall


def expected(tool: str, match: ArgsMatch = "superset", **args: Any) -> ExpectedCall:
    return ExpectedCall(tool=tool, args=args or None, match=match)


def made(tool: str, step: int = 0, status: CallStatus = "ok", turn: int = 0, **args: Any) -> MadeCall:
    return MadeCall(tool=tool, args=args, step=step, status=status, turn=turn)


def in_turn(*tools: str) -> list[MadeCall]:
    return [made(tool, step) for step, tool in enumerate(tools)]


def only(expected_calls: ExpectedCalls, calls: list[MadeCall]) -> CheckResult:
    (result,) = check_calls(expected_calls, calls)
    return result


def holds(mode: CallMode, names: str, calls: str) -> bool:
    wanted = tuple(ExpectedCall(tool=name) for name in names.split())
    return only(ExpectedCalls(calls=wanted, mode=mode), in_turn(*calls.split())).passed


@pytest.mark.parametrize(
    ("mode", "names", "calls", "passes"),
    [
        ("strict", "a b", "a b", True),
        ("strict", "a b", "b a", False),
        ("strict", "a b", "a b c", False),
        ("strict", "a b", "a", False),
        ("strict", "", "", True),
        ("unordered", "a b", "b a", True),
        ("unordered", "a a b", "a b b", False),
        ("unordered", "a b", "a b c", False),
        ("subset", "a b", "a", True),
        ("subset", "a b", "", True),
        ("subset", "a b", "a a", False),
        ("subset", "", "", True),
        ("subset", "", "a", False),
        ("superset", "a", "a b", True),
        ("superset", "a a", "a b", False),
        ("superset", "", "a", True),
        # A wide expectation leaves the call to the narrow one, whichever comes first.
        ("unordered", "* a", "a b", True),
        ("unordered", "a *", "a b", True),
        ("superset", "a* ab", "ab ac", True),
        ("subset", "* a", "b a", True),
        ("unordered", "a *", "b c", False),
    ],
)
def test_a_mode_compares_the_calls_that_it_is_about(
    mode: CallMode, names: str, calls: str, passes: bool
) -> None:
    assert holds(mode, names, calls) is passes


def test_calls_of_one_reply_have_no_order_among_them() -> None:
    wanted = ExpectedCalls(calls=(expected("a"), expected("b"), expected("c")), mode="strict")
    assert only(wanted, [made("b", 0), made("a", 0), made("c", 1)]).passed
    result = only(wanted, [made("a", 0), made("c", 1), made("b", 2)])
    assert not result.passed
    assert result.evidence == "Call 2 of 3: expected b, found c()."
    assert only(wanted, [made("a", 0), made("b", 1)]).evidence == "After 2 calls these are missing: c."


def test_a_reply_of_the_next_turn_is_another_reply() -> None:
    wanted = ExpectedCalls(calls=(expected("a"), expected("b")), mode="strict")
    assert not only(wanted, [made("b", 0, turn=0), made("a", 0, turn=1)]).passed


@pytest.mark.parametrize(
    ("match", "wanted", "passed", "fits"),
    [
        ("exact", {"a": 1}, {"a": 1}, True),
        ("exact", {"a": 1}, {"a": 1, "b": 2}, False),
        ("exact", {"a": 1}, {}, False),
        ("exact", {"a": 1}, {"a": 1.0}, True),
        ("exact", {"a": 1}, {"a": True}, False),
        ("exact", {"a": [1, {"b": 2}]}, {"a": [1, {"b": 2, "c": 3}]}, False),
        ("superset", {"a": 1}, {"a": 1, "b": 2}, True),
        ("superset", {"a": 1, "b": 2}, {"a": 1}, False),
        ("superset", {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ("superset", {"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, True),
        ("superset", {"a": [1]}, {"a": [1, 2]}, False),
        ("superset", {"a": {"b": 1}}, {"a": 1}, False),
        ("subset", {"a": 1, "b": 2}, {"a": 1}, True),
        ("subset", {"a": 1}, {"a": 1, "b": 2}, False),
        ("subset", {"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ("subset", {"a": 1}, {}, True),
        ("ignore", {"a": 1}, {"b": 2}, True),
    ],
)
def test_arguments_are_compared_as_the_case_says(
    match: ArgsMatch, wanted: dict[str, Any], passed: dict[str, Any], fits: bool
) -> None:
    assert args_fit(ExpectedCall(tool="t", args=wanted, match=match), passed) is fits


def test_arguments_of_no_depth_stop_a_check() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert args_fit(ExpectedCall(tool="t", args=deep), deep) is False


def test_a_missing_and_an_unexpected_call_are_named() -> None:
    result = only(
        ExpectedCalls(calls=(expected("read_file", path="a.csv"),), mode="unordered"),
        [made("read_file", path="b.csv", status="refused")],
    )
    assert result.text == "The calls are, in any order: read_file(path=a.csv)."
    assert result.evidence == (
        "Missing: read_file(path=a.csv). Not expected: read_file(path=b.csv) (refused)."
    )


def test_loading_is_compared_only_where_it_is_named() -> None:
    calls = in_turn("load_skill", "read_file")
    for mode in ("strict", "unordered", "subset"):
        assert only(ExpectedCalls(calls=(expected("read_file"),), mode=mode), calls).passed
        assert only(ExpectedCalls(calls=(expected("*"),), mode=mode), calls).passed
    named = ExpectedCalls(calls=(expected("load_*"), expected("read_file")), mode="strict")
    assert only(named, calls).passed
    assert not only(named, in_turn("search_skills", "load_skill", "read_file")).passed
    assert only(ExpectedCalls(calls=(), mode="subset"), in_turn("load_skill")).passed


@pytest.mark.parametrize(
    ("chain", "calls", "fault"),
    [
        ("load run", "load run", ""),
        ("load run", "load x run run", ""),
        ("load run", "load load run load", ""),
        ("load run", "run load run", "run(). It did not come after load."),
        ("load run", "load", "There is no call of run after load. Made: load()."),
        ("load run", "run", "There is no call of load. Made: run()."),
        ("load run", "", "There is no call of load. Made: none."),
        ("load edit run", "load run edit run", "run(). It did not come after edit."),
        ("load load", "load", "There is no call of load after load. Made: load()."),
        ("load load", "load load", ""),
        ("load run load", "load run load", ""),
        ("load *", "load run", ""),
    ],
)
def test_a_chain_says_what_comes_after_what(chain: str, calls: str, fault: str) -> None:
    order = (tuple(ExpectedCall(tool=name) for name in chain.split()),)
    result = only(ExpectedCalls(order=order), in_turn(*calls.split()))
    assert result.kind == "order"
    assert result.passed is not bool(fault)
    if fault:
        assert result.evidence == fault


def test_what_ran_beside_a_call_did_not_come_after_it() -> None:
    order = ((expected("load"), expected("run")),)
    assert not only(ExpectedCalls(order=order), [made("load", 0), made("run", 0)]).passed
    assert only(ExpectedCalls(order=order), [made("load", 0), made("run", 1)]).passed


def test_a_forbidden_call_that_was_refused_was_still_tried() -> None:
    forbidden = ExpectedCalls(forbidden=(expected("write_*", path="/etc/passwd"),))
    result = only(forbidden, [made("write_file", path="/etc/passwd", status="refused")])
    assert not result.passed
    assert result.evidence == "write_file(path=/etc/passwd) (refused)."
    assert only(forbidden, [made("write_file", path="a")]).passed


def test_a_name_with_many_stars_takes_no_time() -> None:
    wanted = ExpectedCalls(calls=(expected("*a" * 40 + "b"),))
    assert not only(wanted, [made("a" * 400)]).passed


def test_evidence_is_short_and_shows_what_is_hidden() -> None:
    result = only(
        ExpectedCalls(forbidden=(expected("*"),)),
        [made("t", text="\x1b[2J" + "x" * 1_000) for _ in range(100)],
    )
    assert len(result.evidence) <= 500
    assert "\x1b" not in result.evidence
    assert "<U+001B>" in result.evidence


CHOICES = st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=5)


@given(CHOICES)
def test_a_pairing_gives_as_many_as_can_be(choices: list[list[int]]) -> None:
    given_choices = pair(choices)
    assert all(choice in choices[row] for row, choice in given_choices.items())
    assert len(set(given_choices.values())) == len(given_choices)
    padded = [*range(5), *[None] * len(choices)]
    best = max(
        sum(choice in row for row, choice in zip(choices, order, strict=False))
        for order in set(permutations(padded, len(choices)))
    )
    assert len(given_choices) == best


NAMES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=5)


@given(NAMES, NAMES)
def test_the_modes_are_those_of_multisets(names: list[str], calls: list[str]) -> None:
    wanted, there = " ".join(names), " ".join(calls)
    counts = [(names.count(name), calls.count(name)) for name in "abc"]
    assert holds("superset", wanted, there) is all(one <= other for one, other in counts)
    assert holds("subset", wanted, there) is all(one >= other for one, other in counts)
    assert holds("unordered", wanted, there) is (sorted(names) == sorted(calls))
    assert holds("strict", wanted, there) is (names == calls)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(ARGS, ARGS)
def test_what_is_the_same_is_part_of_each_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    for match in get_args(ArgsMatch):
        assert args_fit(ExpectedCall(tool="t", args=one, match=match), one)
    both = all(
        args_fit(ExpectedCall(tool="t", args=one, match=match), other) for match in ("subset", "superset")
    )
    assert both is args_fit(ExpectedCall(tool="t", args=one, match="exact"), other)
