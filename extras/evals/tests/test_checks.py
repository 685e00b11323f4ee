"""What a case expects, held against one run of it."""

import os
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.evals.cases import excerpts, file_checks
from skills_agent.evals.cases.call_checks import check_calls, fits, pair
from skills_agent.evals.cases.case import (
    ArgsMatch,
    CallMode,
    EvalCase,
    Expected,
    ExpectedCall,
    ExpectedCalls,
    ExpectedSkills,
    ExpectedText,
    Metric,
    SkillsMode,
)
from skills_agent.evals.cases.checks import check
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.file_checks import check_files
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.text_checks import check_readable, check_text
from skills_agent.evals.cases.trajectory import CallStatus, MadeCall, Spent, Trajectory


def checked(
    expect: Expected, trajectory: Trajectory, spent: Spent | None = None, **fields: Any
) -> tuple[CheckResult, ...]:
    case = EvalCase(id="set/one", turns=("Do it.",), expect=expect, **fields)
    nowhere = Path("/nowhere")
    return tuple(check(case, trajectory, spent or Spent(), nowhere, lambda *_: (True, "")))


@pytest.mark.parametrize(
    ("mode", "names", "chosen", "load", "passes"),
    [
        ("all", "a b", "b a c", "", True),
        ("all", "a b", "a", "", False),
        ("any", "a b", "c", "", False),
        ("none", "a", "b", "", True),
        ("none", "", "a", "", False),
        ("only", "a", "a", "", True),
        ("only", "a", "a b", "", False),
        # What the case loads is no choice.
        ("none", "", "a", "a", True),
        ("none", "", "b", "a", False),
    ],
)
def test_skills_are_chosen_as_expected(
    mode: SkillsMode, names: str, chosen: str, load: str, passes: bool
) -> None:
    skills, text = ExpectedSkills(mode=mode, names=tuple(names.split())), ExpectedText(contains=("x",))
    ran = Trajectory(chosen=tuple(chosen.split()))
    loaded = tuple(load.split())
    (result, _) = checked(Expected(skills=skills, answer=text), ran, load=loaded)
    assert result.passed is passes
    # Of a trigger case only the skills count.
    assert checked(Expected(skills=skills, answer=text), ran, load=loaded, kind="trigger") == (result,)


@pytest.mark.parametrize(
    ("metric", "limit", "passes"),
    [
        ("calls", 1, False),
        ("calls", 2, True),
        ("model_calls", 2, False),
        ("tokens", 1_500, False),
        ("tokens", 1_600, True),
        ("seconds", 2.5, False),
    ],
)
def test_what_a_run_takes_is_limited(metric: Metric, limit: float, passes: bool) -> None:
    spent = Spent(seconds=3.0, model_calls=3, input_tokens=1_000, output_tokens=600)
    trajectory = Trajectory(calls=(MadeCall(tool="a"), MadeCall(tool="b", status="refused")))
    (result,) = checked(Expected(limits={metric: limit}), trajectory, spent)
    assert result.passed is passes


# Calls


def made(tool: str, step: int = 0, status: CallStatus = "ok", **args: Any) -> MadeCall:
    return MadeCall(tool=tool, args=args, step=step, status=status)


def in_turn(calls: str) -> list[MadeCall]:
    return [made(tool, step) for step, tool in enumerate(calls.split())]


def named(names: str) -> tuple[ExpectedCall, ...]:
    return tuple(ExpectedCall(tool=name) for name in names.split())


def only(expected: ExpectedCalls, calls: Sequence[MadeCall]) -> CheckResult:
    (result,) = check_calls(expected, calls)
    return result


@pytest.mark.parametrize(
    ("mode", "names", "calls", "passes"),
    [
        ("strict", "a b", "a b", True),
        ("strict", "a b", "b a", False),
        ("strict", "a b", "a b c", False),
        ("unordered", "a b", "b a", True),
        ("unordered", "a a b", "a b b", False),
        ("subset", "a b", "a a", False),
        ("subset", "", "a", False),
        ("superset", "a a", "a b", False),
        # A wide expectation leaves the call to the narrow one, whichever comes first.
        ("unordered", "* a", "a b", True),
        ("superset", "a* ab", "ab ac", True),
        ("unordered", "a *", "b c", False),
        # Calls of loading are compared only where they are named.
        ("strict", "read", "load_skill read", True),
        ("strict", "load_* read", "load_skill read", True),
        ("strict", "load_* read", "search_skills load_skill read", False),
        ("subset", "", "load_skill", True),
        ("subset", "[a]? b", "a b", False),
    ],
)
def test_a_mode_compares_the_calls_that_it_is_about(
    mode: CallMode, names: str, calls: str, passes: bool
) -> None:
    assert only(ExpectedCalls(calls=named(names), mode=mode), in_turn(calls)).passed is passes


def test_calls_of_one_reply_have_no_order_among_them() -> None:
    wanted = ExpectedCalls(calls=named("a b c"), mode="strict")
    assert only(wanted, [made("b", 0), made("a", 0), made("c", 1)]).passed
    result = only(wanted, [made("a", 0), made("c", 1), made("b", 2)])
    assert result.evidence == "Call 2 of 3: expected b, found c()."
    assert only(wanted, [made("a", 0), made("b", 1)]).evidence == "Missing at the end: c."
    order = ExpectedCalls(order=(named("load run"),))
    assert not only(order, [made("load", 0), made("run", 0)]).passed
    assert only(order, [made("load", 0), made("run", 1)]).passed


@pytest.mark.parametrize(
    ("match", "wanted", "passed", "holds"),
    [
        ("exact", {"a": 1}, {"a": 1, "b": 2}, False),
        ("exact", {"a": 1}, {"a": 1.0}, True),
        ("exact", {"a": "1"}, {"a": 1}, True),
        ("exact", {"a": 1}, {"a": True}, False),
        ("exact", {"a": [1, {"b": 2}]}, {"a": [1, {"b": 2, "c": 3}]}, False),
        ("superset", {"a": 1, "b": 2}, {"a": 1}, False),
        ("superset", {"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, True),
        ("superset", {"a": [1]}, {"a": [1, 2]}, False),
        ("superset", {"a": {"b": 1}}, {"a": 1}, False),
    ],
)
def test_arguments_are_compared_as_the_case_says(
    match: ArgsMatch, wanted: dict[str, Any], passed: dict[str, Any], holds: bool
) -> None:
    assert fits(ExpectedCall(tool="t", args=wanted, match=match), made("t", **passed)) is holds


@pytest.mark.parametrize(
    ("chain", "calls", "fault"),
    [
        ("load run", "load x run run", ""),
        ("load run", "load load run load", ""),
        ("load run", "run load run", "run() did not come after load."),
        ("load run", "load", "There is no call of run after load. Made: load()."),
        ("load run", "", "There is no call of load. Made: none."),
        ("load edit run", "load run edit run", "run() did not come after edit."),
        ("load *", "load run", ""),
    ],
)
def test_a_chain_says_what_comes_after_what(chain: str, calls: str, fault: str) -> None:
    result = only(ExpectedCalls(order=(named(chain),)), in_turn(calls))
    assert (result.kind, result.passed) == ("order", not fault)
    assert not fault or result.evidence == fault


def test_a_forbidden_call_that_was_refused_was_still_tried() -> None:
    forbidden = ExpectedCalls(forbidden=(ExpectedCall(tool="write_*", args={"path": "/etc/passwd"}),))
    result = only(forbidden, [made("write_file", path="/etc/passwd", status="refused")])
    assert not result.passed
    assert result.evidence == "Made: write_file(path=/etc/passwd) (refused)."
    assert only(forbidden, [made("write_file", path="a")]).passed


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=5))
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


# Texts


def texts(text: str, **expected: Any) -> list[CheckResult]:
    return list(check_text(ExpectedText(**expected), text, "The answer", "answer"))


@pytest.mark.parametrize(
    ("expected", "text", "passes"),
    [
        ({"contains": ("total",)}, "The total is 3", True),
        ({"contains": ("STRASSE",), "ignore_case": True}, "Straße", True),
        ({"contains": ("a\nb",)}, "a\r\nb", True),
        ({"contains_any": ("x", "3")}, "The total is 3", True),
        ({"contains_any": ("x", "y")}, "The total is 3", False),
        ({"not_contains": ("secret",)}, "the secret", False),
        ({"regex": (r"\d+ units$",)}, "All: 12 units\n\n", True),
        ({"regex": (r"^All",)}, "x\nAll", False),
        ({"regex": ("b",)}, "a\udc80b", True),
        ({"regex": ("(a+)+$",)}, "a" * 50_000 + "b", False),
        ({"not_regex": (r"\d",)}, "1", False),
        ({"equals": "a\nb"}, "a\nb\n", True),
        ({"equals": "a\nb"}, "a\n b", False),
        ({"equals": "A", "ignore_case": True}, "a", True),
    ],
)
def test_a_text_is_held_against_what_is_expected(expected: dict[str, Any], text: str, passes: bool) -> None:
    (result,) = texts(text, **expected)
    assert result.passed is passes


def test_what_a_script_prints_is_cut() -> None:
    assert len(excerpts.result("script", "check.py", passed=False, evidence="x" * 1_000).evidence) == 500


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_failure_has_short_evidence(one: str, other: str) -> None:
    for result in texts(other, contains=(one,), not_contains=(one,), equals=one):
        assert result.passed or result.evidence
        assert len(result.evidence) <= 500
        assert not set(result.evidence + result.text) & set("\x1b\u202e\x00")


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        ({"regex": ("(?=a)b",)}, "lookaround"),
        ({"not_regex": (r"(a)\1",)}, "backreferences"),
        ({"regex": ("\ud800",)}, "no Unicode text"),
        ({"json_schema": {"type": "nonsense"}}, "is not valid"),
        ({"json_schema": {"pattern": "(?=a)"}}, "RE2 does not understand"),
        ({"json_schema": {"allOf": [{"patternProperties": {"a": {}}}]}}, "is not read here"),
    ],
)
def test_what_nothing_can_be_held_against_is_told(expected: dict[str, Any], reason: str) -> None:
    with pytest.raises(EvalError, match=reason):
        check_readable(ExpectedText(**expected))


TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.mark.parametrize(
    ("schema", "text", "fault"),
    [
        (TOTAL, '{"total": 3}', ""),
        (TOTAL, 'Here it is:\n```json\n{"total": 3}\n```\nDone.', ""),
        (TOTAL, '{"total": "3"}', "$.total: '3' is not of type 'integer'"),
        (TOTAL, "{}", "'total' is a required property"),
        (TOTAL, "Nothing", "It is no JSON"),
        (TOTAL, "```json\n1\n```\n```json\n2\n```", "2 fenced blocks"),
        (TOTAL, "[" * 100_000, "nested too deep"),
        ({"$ref": "#"}, "1", "refers to itself"),
        ({"pattern": "(a+)+$"}, f'"{"a" * 5_000}b"', "does not match"),
        ({"enum": [{"pattern": "(?=a)"}]}, '{"pattern": "(?=a)"}', ""),
    ],
)
def test_a_text_is_json_that_fits_its_schema(schema: dict[str, Any], text: str, fault: str) -> None:
    (result,) = texts(text, json_schema=schema)
    assert result.passed is not bool(fault)
    assert fault in result.evidence


def test_a_reference_of_a_schema_fetches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("socket.create_connection", lambda *given, **_: asked.append(given))
    with pytest.raises(Exception, match="schema"):
        texts("1", json_schema={"$ref": "http://127.0.0.1:9/schema.json"})
    assert asked == []


# Files


def files(workspace: Path, path: str, **fields: Any) -> list[CheckResult]:
    return list(check_files({path: ExpectedText(**fields)}, workspace))


def passes(workspace: Path, path: str, **fields: Any) -> bool:
    return all(each.passed for each in files(workspace, path, **fields))


@pytest.fixture
def place(workspace: Path) -> Path:
    (workspace / "out" / "deep").mkdir(parents=True)
    (workspace / ".agent").mkdir()
    for path, text in {
        "a.csv": "n,1\n",
        "out/b.csv": "n,2\n",
        "out/deep/c.txt": "",
        ".agent/hidden.csv": "",
    }.items():
        (workspace / path).write_text(text)
    return workspace


@pytest.mark.parametrize(
    ("paths", "there"),
    [
        ("a.csv *.csv */b.csv **/a.csv **/*.txt out/** out/**/c.txt .agent/*.csv", True),
        ("*.txt **/hidden.csv a?csv [a].csv out ../a.csv /etc/hostname", False),
    ],
)
def test_a_path_names_files_as_a_shell_does(place: Path, paths: str, there: bool) -> None:
    assert [path for path in paths.split() if passes(place, path) is not there] == []


def test_one_file_that_fits_is_enough_and_the_best_is_told(place: Path) -> None:
    assert files(place, "*.txt")[0].evidence == "In the workspace there is .agent, a.csv, out."
    absent = {path: check_files({path: None}, place) for path in ("a.csv", "out", "no.csv")}
    assert [path for path, (found,) in absent.items() if found.passed] == ["no.csv"]
    assert passes(place, "**/*.csv", contains=("n,2",))
    results = files(place, "**/*.csv", contains=("n,2", "n,3"))
    assert [each.passed for each in results] == [True, True, False]


def test_no_link_and_no_fifo_of_a_workspace_counts(place: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (place / "link.txt").symlink_to(tmp_path / "secret.txt")
    (place / "folder").symlink_to(tmp_path)
    (place / "inner.txt").symlink_to(place / "a.csv")
    os.mkfifo(place / "pipe.txt")
    for path in ("link.txt", "folder/secret.txt", "pipe.txt", "**/secret.txt"):
        assert not passes(place, path, contains=("secret",))
    assert "secret" not in files(place, "link.txt", contains=("x",))[0].evidence.replace("secret.txt", "")
    assert passes(place, "inner.txt", contains=("n,1",))


def test_only_so_much_is_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_checks, "MAX_BYTES", 3)
    assert not passes(place, "a.csv", contains=("n",))
    monkeypatch.setattr(file_checks, "MAX_ENTRIES", 0)
    assert not passes(place, "*.csv")
