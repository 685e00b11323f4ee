"""What a report shows of made-up runs."""

from collections.abc import Sequence
from typing import Any

import pytest

from extras.evals.tests.runs import answered, head, ran, task, trigger
from skills_agent.evals.cases.case import EvalCase, Expected, ExpectedText
from skills_agent.evals.cases.result import EvalResult, Outcome
from skills_agent.evals.cases.summarise import summarise
from skills_agent.evals.cases.summary import Delta, Summary
from skills_agent.evals.cases.trajectory import Spent


def cases(number: int) -> list[EvalCase]:
    return [task(f"set/{at:02}") for at in range(number)]


def delta(summary: Summary, metric: str, name: str = "with - without") -> Delta:
    (found,) = [each for each in summary.deltas if (each.metric, each.name) == (metric, name)]
    return found


def arms(with_it: Sequence[bool], without: Sequence[bool]) -> Summary:
    results = [answered(f"set/{at:02}", right=right) for at, right in enumerate(with_it)]
    results += [answered(f"set/{at:02}", right=right, arm="without") for at, right in enumerate(without)]
    return summarise(head(cases(len(with_it)), arms=("with", "without")), results)


def notes(summary: Summary) -> str:
    return "\n".join(summary.notes)


def test_the_unit_is_the_case_however_often_it_ran() -> None:
    results = [answered("set/00", right=True, repeat=k) for k in range(100)]
    results += [answered("set/01", right=k == 0, repeat=k) for k in range(4)]
    (arm,) = summarise(head(cases(2), repeat=100), results).arms
    assert (arm.cases, arm.runs) == (2, 104)
    assert (arm.passed.value, arm.passed.n) == (0.625, 2)
    assert arm.passed.low < 0.2
    assert arm.all_passed == 0.5


@pytest.mark.parametrize("outcome", ["error", "timeout", "refused"])
def test_a_run_without_an_answer_stays_in_the_count(outcome: Outcome) -> None:
    results = [answered("set/00", right=True), ran("set/01", outcome=outcome)]
    summary = summarise(head(cases(2)), results)
    (arm,) = summary.arms
    assert arm.outcomes == {"passed": 1, outcome: 1}
    assert (arm.passed.value, arm.passed.n) == (0.5, 2)
    assert "1 of 2 runs ended without an answer" in notes(summary)


def test_what_nothing_decides_about_is_in_no_share() -> None:
    rubric = task("set/00", Expected(rubric=("It is kind.",)))
    results = [ran("set/00", outcome="ungraded"), answered("set/01", right=True)]
    summary = summarise(head([rubric, *cases(2)[1:]]), results)
    (arm,) = summary.arms
    assert arm.outcomes == {"ungraded": 1, "passed": 1}
    assert (arm.passed.value, arm.passed.n) == (1.0, 1)
    assert summary.cases[0].rates == {}
    assert "Nothing decides about 1 case (set/00)" in notes(summary)
    for case, outcome in ((rubric, "error"), (task("set/00", Expected()), "passed")):
        (arm,) = summarise(head([case]), [ran("set/00", outcome=outcome)]).arms  # type: ignore[arg-type]
        assert arm.passed.n == 0
    graded = summarise(head([rubric], grader="judge"), [ran("set/00", outcome="error")])
    assert (graded.arms[0].passed.value, graded.arms[0].passed.n) == (0.0, 1)


# With and without.


@pytest.mark.parametrize(
    ("with_it", "without", "verdict", "has_p"),
    [
        ("11111", "00000", "too few cases", False),
        ("111110", "000000", "too few cases", False),
        ("111111", "000000", "better", True),
        ("000000", "111111", "worse", True),
        ("1111111110", "0000000001", "better", True),
        ("1111111000", "0000000100", "no difference shown", True),
        ("1111111111", "1111111111", "no difference shown", False),
        ("11111111110000000000", "00000111110000000000", "too few cases", False),
    ],
)
def test_a_verdict_is_not_more_than_the_cases_show(
    with_it: str, without: str, verdict: str, has_p: bool
) -> None:
    found = delta(arms([each == "1" for each in with_it], [each == "1" for each in without]), "passed")
    assert found.verdict == verdict
    assert (found.p is not None) is has_p


def test_the_arms_are_compared_by_what_can_hold_without_the_skill() -> None:
    """The run with the skill fails a check that the other arm cannot have: that is no loss."""
    many = cases(8)
    results = [ran(case.id, ("skills", False), ("answer", True)) for case in many]
    results += [answered(case.id, right=True, arm="without") for case in many]
    summary = summarise(head(many, arms=("with", "without")), results)
    with_it, without = summary.arms
    assert with_it.passed.value == 0.0
    assert without.passed.value == 1.0
    found = delta(summary, "passed")
    assert (found.value, found.ties, found.verdict) == (0.0, 8, "no difference shown")
    assert found.low < 0 < found.high
    assert without.accuracy is None
    assert not [each for each in summary.deltas if each.metric == "chosen"]


def test_trigger_cases_are_left_out_of_the_arms() -> None:
    many = [*cases(6), trigger("set/t", "a")]
    results = [answered(case.id, right=True) for case in many[:6]]
    results += [answered(case.id, right=False, arm="without") for case in many[:6]]
    results += [ran("set/t", ("skills", True)), ran("set/t", ("skills", False), arm="without")]
    summary = summarise(head(many, arms=("with", "without")), results)
    assert delta(summary, "passed").n == 6
    assert "Not run without the skill: 1 case (set/t)" in notes(summary)


def test_what_costs_less_is_better() -> None:
    many = cases(8)
    results = [
        answered(case.id, right=True, spent=Spent(input_tokens=1_000 + at, seconds=1.0))
        for at, case in enumerate(many)
    ]
    results += [
        answered(case.id, right=True, arm="without", spent=Spent(input_tokens=500, seconds=1.0))
        for case in many
    ]
    summary = summarise(head(many, arms=("with", "without")), results)
    tokens = delta(summary, "tokens")
    assert (tokens.value, tokens.losses, tokens.p, tokens.verdict) == (503.5, 8, 2 / 2**8, "worse")
    assert delta(summary, "seconds").verdict == "no difference shown"


def test_an_error_is_not_cheap() -> None:
    many = cases(7)
    results = [answered(case.id, right=True, spent=Spent(input_tokens=100)) for case in many]
    results += [ran(case.id, outcome="error", arm="without") for case in many]
    summary = summarise(head(many, arms=("with", "without")), results)
    assert not [each for each in summary.deltas if each.metric == "tokens"]
    assert delta(summary, "passed").wins == 7


def test_p_is_adjusted_for_all_that_was_asked() -> None:
    """Seven to none is .016 for one model; asked of four models, it is .06."""
    many = cases(7)
    results = []
    for model in "abcd":
        results += [answered(case.id, right=True, model=model) for case in many]
        results += [answered(case.id, right=False, model=model, arm="without") for case in many]
    summary = summarise(head(many, arms=("with", "without")), results)
    found = [each for each in summary.deltas if each.metric == "passed"]
    assert [each.p for each in found] == [pytest.approx(4 * 2 / 2**7)] * 4
    assert {each.verdict for each in found} == {"no difference shown"}


# Now and before.


def before_and_now(
    was: Sequence[bool], now: Sequence[bool], earlier: dict[str, Any] | None = None, **fields: Any
) -> Summary:
    def results(outcomes: Sequence[bool]) -> list[EvalResult]:
        return [answered(f"set/{at:02}", right=right) for at, right in enumerate(outcomes)]

    old = head(cases(len(was)), **{"id": "old", **(earlier or {})})
    return summarise(head(cases(len(now)), **fields), results(now), (old, results(was)))


def test_an_edit_that_helps_is_better() -> None:
    summary = before_and_now([False] * 8, [True] * 8, {"skills": {"a": "1"}}, skills={"a": "2"})
    found = delta(summary, "passed", "now - old")
    assert (found.verdict, found.wins) == ("better", 8)
    assert delta(summary, "chosen", "now - old").verdict == "no difference shown"
    assert summary.cases[0].rates == {"with": 1.0, "before": 0.0}
    assert summary.before is not None
    assert "Skills that changed since old: a." in summary.notes


def test_a_case_that_changed_is_not_compared() -> None:
    many, edited = cases(8), cases(8)
    edited[0] = task(edited[0].id, Expected(answer=ExpectedText(contains=("other",))))
    results = [answered(case.id, right=True) for case in many]
    summary = summarise(head(edited), results, (head(many, id="old"), results))
    assert delta(summary, "passed", "now - old").n == 7
    assert "Not compared with old: 1 new or changed case (set/00)." in notes(summary)


# Which skills were chosen.


def chose(case: str, *names: str, right: bool = True, **fields: Any) -> EvalResult:
    return ran(case, ("skills", right), chosen=names, **fields)


def test_precision_and_recall() -> None:
    many = [
        trigger("1", "a"),
        trigger("2", "a"),
        trigger("3", "b"),
        trigger("4", mode="none"),
        trigger("5", "a"),
    ]
    results = [chose("1", "a"), chose("2", "b"), chose("3", "b"), chose("4", "a"), chose("5")]
    (arm,) = summarise(head(many), results).arms
    assert arm.accuracy is not None
    assert (arm.accuracy.value, arm.accuracy.n) == (0.4, 5)
    a, b = arm.choices
    assert (a.skill, a.right, a.missed, a.wrong) == ("a", 1, 2, 1)
    assert (b.skill, b.right, b.missed, b.wrong) == ("b", 1, 0, 1)
    assert a.precision is not None
    assert a.recall is not None
    assert (a.precision.value, a.precision.n) == (0.5, 2)
    assert a.recall.n == 3
    assert a.recall.value == pytest.approx(1 / 3)
    assert a.f1 == pytest.approx(0.4)


def test_a_run_that_broke_off_is_no_choice_of_no_skill() -> None:
    many = [trigger("1", mode="none"), trigger("2", "a"), trigger("3", "a")]
    results = [
        ran("1", outcome="error"),
        ran("2", outcome="timeout"),
        ran("3", outcome="timeout", chosen=("a",)),
    ]
    (arm,) = summarise(head(many), results).arms
    assert arm.accuracy is not None
    assert arm.accuracy.value == pytest.approx(1 / 3)
    assert (arm.choices[0].right, arm.choices[0].missed) == (1, 1)


def test_other_skills_are_wrong_only_where_the_case_says_so() -> None:
    many = [trigger("1", "a"), trigger("2", "a", mode="only"), trigger("3", "a", "b", mode="any")]
    many.append(trigger("4", "a", mode="none"))
    results = [chose(case.id, *names) for case, names in zip(many, ["ax", "ay", "b", "z"], strict=True)]
    (arm,) = summarise(head(many), results).arms
    assert arm.accuracy is not None
    found = {each.skill: (each.right, each.missed, each.wrong) for each in arm.choices}
    assert found == {"a": (2, 0, 0), "b": (1, 0, 0), "y": (0, 0, 1)}
