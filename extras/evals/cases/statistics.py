"""Figures of few cases, with intervals that do not promise more than these can show.

The unit is the case: runs of the same case are averaged first, and never counted as if they were cases.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from statistics import NormalDist, median
from typing import Final

from skills_agent.evals.cases.summary import Interval

LEVEL: Final = 0.95
RESAMPLES: Final = 10_000
MIN_DISCORDANT: Final = 6
"""Cases that have to differ before a test can say anything: of five, all in one direction, p is .06."""
_DIGITS: Final = 12
"""Sums of thirds that should be nothing are not."""
_Z: Final = NormalDist().inv_cdf(0.5 + LEVEL / 2)


def wilson(passed: float, n: int) -> Interval:
    """Return a share with its score interval (Wilson 1927), of at least one case.

    `passed` is the sum of what each case reached: 0 or 1, or the mean of its runs between these. Such means
    spread less than ones and zeros of the same mean do (their variance is p(1 - p) at most: Bhatia and Davis
    2000), so the interval is then rather too wide; and unlike a bootstrap of few cases it is never empty.
    """
    share = passed / n
    width = 1 + _Z**2 / n
    middle = (share + _Z**2 / (2 * n)) / width
    half = _Z / width * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    low, high = max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
    return Interval(value=share, low=round(low, _DIGITS), high=round(high, _DIGITS), n=n)


def mcnemar(wins: int, losses: int) -> float:
    """Return the two-sided p of McNemar's exact test: how likely so uneven a split is if nothing differs.

    Where cases have several runs it is the sign test of the differences of their means, which is the same
    test: valid as long as both sides have as many runs of a case.
    """
    n = wins + losses
    tail, term = 0, 1
    for k in range(min(wins, losses) + 1):
        tail += term
        term = term * (n - k) // (k + 1)
    return min(1.0, 2 * tail / (1 << n))


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Return each p, adjusted for that so many were asked for (Holm 1979), in the same order."""
    adjusted = [0.0] * len(ps)
    least = 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = least
    return tuple(adjusted)


def median_interval(differences: Sequence[float]) -> Interval:
    """Return the median of the differences of at least one case, with its exact interval (Thompson 1936).

    It holds in 95 % at least, whatever the differences are: costs are skewed, and resampled means of them
    hold in 83 to 88 %. Of fewer than six it is from the least to the most, which holds in less.
    """
    ordered, n = sorted(differences), len(differences)
    ranks = range(1, n // 2 + 1)
    rank = bisect_right(ranks, 1 - LEVEL, key=lambda rank: mcnemar(rank - 1, n - rank + 1))
    low, high = ordered[max(rank, 1) - 1], ordered[n - max(rank, 1)]
    return Interval(value=round(median(ordered), _DIGITS), low=low, high=high, n=n)


def paired_bootstrap(differences: Sequence[float], seed: int, *, resamples: int = RESAMPLES) -> Interval:
    """Return the mean of the differences of the shares of cases, with the interval of resampled cases.

    The percentiles are a little wider apart than 2.5 and 97.5, as Student's t is wider than the normal
    distribution: those promise 95 % and hold 90 % for ten cases (Hesterberg 2015, "expanded percentile").

    All differences, of at least one case, lie between -1 and 1. Where all are the same, resampling has
    nothing to say; then the interval is what other cases, as many as Wilson's of none allows, could make of
    the mean.
    """
    n = len(differences)
    mean = round(math.fsum(differences) / n, _DIGITS)
    if min(differences) == max(differences):
        unseen = wilson(0, n).high
        low, high = mean - unseen * (mean + 1), mean + unseen * (1 - mean)
        return Interval(value=mean, low=round(low, _DIGITS), high=round(high, _DIGITS), n=n)
    choices = random.Random(seed).choices  # noqa: S311 - the same figures every time
    means = sorted(sum(choices(differences, k=n)) / n for _ in range(resamples))
    tail = NormalDist().cdf(-math.sqrt(n / (n - 1)) * _t(n - 1))
    low, high = _quantile(means, tail), _quantile(means, 1 - tail)
    return Interval(value=mean, low=round(low, _DIGITS), high=round(high, _DIGITS), n=n)


def smallest_visible(n: int, deviation: float = 0.5) -> float:
    """Return the smallest mean difference whose interval would leave out 0, of `n` cases.

    `deviation` is that of the differences of single cases: 0.5 where a quarter of them differ by one.
    """
    return _Z * deviation / math.sqrt(n)


def pass_at(k: int, passed: int, runs: int) -> float:
    """Return how likely one of `k` runs passes at least, estimated of more (pass@k, Chen and others 2021)."""
    return 1 - math.comb(runs - passed, k) / math.comb(runs, k)


def pass_every(k: int, passed: int, runs: int) -> float:
    """Return how likely all of `k` runs pass, estimated of more (pass^k, Yao and others 2024)."""
    return math.comb(passed, k) / math.comb(runs, k)


def _t(freedom: int) -> float:
    """Return the quantile of Student's t (Abramowitz and Stegun 26.7.5): from 5 on within 0.2 %."""
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
