"""What a run has to reach."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras.evals.tests.runs import answered, head, ran, task
from skills_agent.evals.cases.case import Expected
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.summarise import summarise
from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.cases.thresholds import METRICS, missed, parse_threshold


def misses(summary: Summary, *texts: str) -> tuple[str, ...]:
    return missed(summary, [parse_threshold(text) for text in texts])


@pytest.mark.parametrize(
    ("text", "metric", "skill", "value"),
    [
        (" passed = 80 % ", "passed", "", 0.8),
        ("all_passed=1", "all_passed", "", 1.0),
        ("recall:csv-report=90%", "recall", "csv-report", 0.9),
        ("delta=-0.1", "delta", "", -0.1),
        ("delta=+10%", "delta", "", 0.1),
    ],
)
def test_a_threshold_is_a_metric_and_a_share(text: str, metric: str, skill: str, value: float) -> None:
    threshold = parse_threshold(text)
    assert (threshold.metric, threshold.skill) == (metric, skill)
    assert threshold.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("passed", "write METRIC=VALUE"),
        ("xyz=0.8", "Metrics: passed, all_passed"),
        ("passed=80", "from 0 to 1"),
        ("passed=nan", "write METRIC=VALUE"),
        ("passed=1e-1", "write METRIC=VALUE"),
        ("passed=٠.٨", "write METRIC=VALUE"),
        ("delta=-2", "from 0 to 1"),
        ("passed:a=0.8", "write METRIC=VALUE"),
        ("\x1b[2J=1", "<U+001B>"),
    ],
)
def test_what_is_no_threshold_is_told(text: str, reason: str) -> None:
    with pytest.raises(EvalError) as caught:
        parse_threshold(text)
    assert reason in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_share_that_is_just_reached_is_reached() -> None:
    tasks = [task(f"{at}") for at in range(10)]
    results = [answered(case.id, right=at > 2, repeat=k) for at, case in enumerate(tasks) for k in range(3)]
    summary = summarise(head(tasks, repeat=3), results)
    assert misses(summary, "passed=70%", "passed=.7", "all_passed=0.7") == ()
    few = [answered(f"{at}", right=at == 0 and k < 3, repeat=k) for at in range(3) for k in range(5)]
    assert misses(summarise(head(tasks[:3], repeat=5), few), "passed=20%") == ()
    assert misses(summary, "passed=70.01%") == ("passed is 0.7 of model, below 0.7001.",)
    assert misses(summary, "recall:c=0") == ("recall:c is asked for, and no case of the run can show it.",)


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_without_cases_is_missed(metric: str) -> None:
    rubric = task("1", Expected(rubric=("It is kind.",)))
    summary = summarise(head([rubric]), [ran("1", outcome="ungraded")])
    (sentence,) = misses(summary, f"{metric}=0")
    assert sentence.startswith(f"{metric} is asked for, and ")
    assert misses(summarise(head([rubric]), []), f"{metric}=0")


@given(st.text(max_size=30) | st.from_regex(r"(passed|delta|f1:a)=[-+]?[0-9.]{1,5} ?%?", fullmatch=True))
def test_any_text_is_a_threshold_or_an_error(text: str) -> None:
    with suppress(EvalError):
        threshold = parse_threshold(text)
        assert -1 <= threshold.value <= 1
        assert threshold.metric in METRICS
