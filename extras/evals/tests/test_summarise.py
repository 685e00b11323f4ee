"""What a report shows of made-up runs."""

from collections.abc import Callable, Sequence

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


def arms(
    many: Sequence[EvalCase],
    with_it: Callable[[EvalCase], EvalResult],
    without: Callable[[EvalCase], EvalResult],
) -> Summary:
    results = [run(case) for run in (with_it, without) for case in many]
    return summarise(head(many, arms=("with", "without")), results)


def test_the_unit_is_the_case_however_often_it_ran() -> None:
    results = [answered("set/00", right=True, repeat=k) for k in range(100)]
    results += [answered("set/01", right=k == 0, repeat=k) for k in range(4)]
    (arm,) = summarise(head(cases(2), repeat=100), results).arms
    assert (arm.cases, arm.runs, arm.all_passed) == (2, 104, 0.5)
    assert (arm.passed.value, arm.passed.n) == (0.625, 2)
    assert arm.passed.low < 0.2


@pytest.mark.parametrize("outcome", ["error", "timeout", "refused"])
def test_a_run_without_an_answer_stays_in_the_count(outcome: Outcome) -> None:
    results = [answered("set/00", right=True), ran("set/01", outcome=outcome)]
    summary = summarise(head(cases(2)), results)
    (arm,) = summary.arms
    assert arm.outcomes == {"passed": 1, outcome: 1}
    assert (arm.passed.value, arm.passed.n) == (0.5, 2)
    assert any("1 of 2 runs ended without an answer" in note for note in summary.notes)


def test_what_nothing_decides_about_is_in_no_share() -> None:
    rubric = task("set/00", Expected(rubric=("It is kind.",)))
    results = [ran("set/00", outcome="ungraded"), answered("set/01", right=True)]
    summary = summarise(head([rubric, *cases(2)[1:]]), results)
    assert (summary.arms[0].passed.value, summary.arms[0].passed.n) == (1.0, 1)
    assert summary.cases[0].rates == {}
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
    def right(case: EvalCase, outcomes: str) -> bool:
        return outcomes[int(case.id[-2:])] == "1"

    summary = arms(
        cases(len(with_it)),
        lambda case: answered(case.id, right=right(case, with_it)),
        lambda case: answered(case.id, right=right(case, without), arm="without"),
    )
    found = delta(summary, "passed")
    assert (found.verdict, found.p is not None) == (verdict, has_p)


def test_the_arms_are_compared_by_what_can_hold_without_the_skill() -> None:
    """The run with the skill fails a check that the other arm cannot have: that is no loss."""
    summary = arms(
        cases(8),
        lambda case: ran(case.id, ("skills", False), ("answer", True)),
        lambda case: answered(case.id, right=True, arm="without"),
    )
    with_it, without = summary.arms
    assert (with_it.passed.value, without.passed.value, without.accuracy) == (0.0, 1.0, None)
    found = delta(summary, "passed")
    assert (found.value, found.ties, found.verdict) == (0.0, 8, "no difference shown")
    assert found.low < 0 < found.high
    assert not [each for each in summary.deltas if each.metric == "chosen"]


def test_trigger_cases_are_left_out_of_the_arms() -> None:
    summary = arms(
        [*cases(6), trigger("set/t", "a")],
        lambda case: answered(case.id, right=case.kind == "task"),
        lambda case: answered(case.id, right=False, arm="without"),
    )
    assert delta(summary, "passed").n == 6
    assert any("Not run without the skill: 1 case (set/t)" in note for note in summary.notes)


def test_what_costs_less_is_better_and_an_error_is_not_cheap() -> None:
    def dear(case: EvalCase) -> EvalResult:
        spent = Spent(input_tokens=1_000 + int(case.id[-2:]), seconds=1.0)
        return answered(case.id, right=True, spent=spent)

    cheap = Spent(input_tokens=500, seconds=1.0)
    summary = arms(cases(8), dear, lambda case: answered(case.id, right=True, arm="without", spent=cheap))
    tokens = delta(summary, "tokens")
    assert (tokens.value, tokens.losses, tokens.p, tokens.verdict) == (503.5, 8, 2 / 2**8, "worse")
    assert delta(summary, "seconds").verdict == "no difference shown"
    broken = arms(cases(7), dear, lambda case: ran(case.id, outcome="error", arm="without"))
    assert not [each for each in broken.deltas if each.metric == "tokens"]
    assert delta(broken, "passed").wins == 7


def test_p_is_adjusted_for_all_that_was_asked() -> None:
    """Seven to none is .016 for one model; asked of four models, it is .06."""
    results = [
        answered(case.id, right=arm == "with", model=model, arm=arm)
        for model in "abcd"
        for arm in ("with", "without")
        for case in cases(7)
    ]
    summary = summarise(head(cases(7), arms=("with", "without")), results)
    found = [each for each in summary.deltas if each.metric == "passed"]
    assert [each.p for each in found] == [pytest.approx(4 * 2 / 2**7)] * 4
    assert {each.verdict for each in found} == {"no difference shown"}


def test_an_edit_that_helps_is_better_and_a_case_that_changed_is_not_compared() -> None:
    was, now = ([answered(case.id, right=right) for case in cases(9)] for right in (False, True))
    edited = [*cases(8), task("set/08", Expected(answer=ExpectedText(contains=("other",))))]
    old = head(cases(9), id="old", skills={"a": "1"})
    summary = summarise(head(edited, skills={"a": "2"}), now, (old, was))
    found = delta(summary, "passed", "now - old")
    assert (found.verdict, found.wins, found.n) == ("better", 8, 8)
    assert delta(summary, "chosen", "now - old").verdict == "no difference shown"
    assert summary.cases[0].rates == {"with": 1.0, "before": 0.0}
    assert "Skills that changed since old: a." in summary.notes
    assert "Not compared with old: 1 new or changed case (set/08)." in summary.notes


# Which skills were chosen.


def chose(case: str, *names: str, right: bool = True) -> EvalResult:
    return ran(case, ("skills", right), chosen=names)


def test_precision_and_recall() -> None:
    wanted = [("a",), ("a",), ("b",), (), ("a",)]
    many = [trigger(str(at), *names, mode="all" if names else "none") for at, names in enumerate(wanted, 1)]
    results = [chose("1", "a"), chose("2", "b"), chose("3", "b"), chose("4", "a"), chose("5")]
    (arm,) = summarise(head(many), results).arms
    assert arm.accuracy is not None
    assert (arm.accuracy.value, arm.accuracy.n) == (0.4, 5)
    a, b = arm.choices
    assert (a.skill, a.right, a.missed, a.wrong) == ("a", 1, 2, 1)
    assert (b.skill, b.right, b.missed, b.wrong) == ("b", 1, 0, 1)
    assert a.precision is not None
    assert a.recall is not None
    assert (a.precision.value, a.precision.n, a.recall.n) == (0.5, 2, 3)
    assert (a.recall.value, a.f1) == pytest.approx((1 / 3, 0.4))


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
    found = {each.skill: (each.right, each.missed, each.wrong) for each in arm.choices}
    assert found == {"a": (2, 0, 0), "b": (1, 0, 0), "y": (0, 0, 1)}
