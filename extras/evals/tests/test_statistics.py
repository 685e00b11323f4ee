"""Figures of few cases, against published ones."""

import random

import pytest

from skills_agent.evals.cases import statistics
from skills_agent.evals.cases.statistics import bootstrap, holm, mcnemar, wilson


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        (2, 3, 0.21, 0.94),
        (9, 10, 0.60, 0.98),
        (0, 20, 0.00, 0.16),
        # Newcombe 1998, table I, method 3: 81/263 and 15/148.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_wilson_is_as_published(passed: int, n: int, low: float, high: float) -> None:
    digits = 4 if low > 0 and n > 100 else 2
    interval = wilson(passed, n)
    assert (round(interval.low, digits), round(interval.high, digits)) == (low, high)
    assert interval.n == n


def test_p_is_as_published() -> None:
    assert [round(mcnemar(*pairs), 2) for pairs in ((1, 1), (5, 0), (6, 0), (2, 10))] == [
        1.0,
        0.06,
        0.03,
        0.04,
    ]
    # Holm's procedure for .01, .04, .03, .005: 4 x .005, 3 x .01, 2 x .03, then not less than these.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert (holm([]), holm([0.9, 0.8])) == ((), (1.0, 1.0))


def test_an_interval_of_ten_cases_holds_what_it_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    held = 0
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    for _ in range(400):
        interval = statistics.bootstrap([chance.gauss(1, 2) for _ in range(10)], is_share=True)
        held += interval.low <= 1 <= interval.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [(0.0, -0.16, 0.16), (1.0, 0.68, 1.0), (-1.0, -1.0, -0.68), (0.5, 0.26, 0.58)],
)
def test_cases_that_all_differ_alike_promise_nothing_of_others(value: float, low: float, high: float) -> None:
    interval = bootstrap([value] * 20, is_share=True)
    assert (interval.value, round(interval.low, 2), round(interval.high, 2)) == (value, low, high)


@pytest.mark.parametrize("is_share", [True, False])
def test_sums_of_thirds_that_are_nothing_are_nothing(is_share: bool) -> None:
    interval = bootstrap([1 / 3, -1 / 3, 2 / 3, -2 / 3, 1 / 3, -1 / 3], is_share=is_share)
    assert interval.value == 0.0
    assert interval.low < 0 < interval.high
