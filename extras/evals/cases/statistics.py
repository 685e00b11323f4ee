"""Figures of few cases, with intervals that do not promise more than these can show.

The unit is the case: runs of the same case are averaged first, and never counted as if they were cases.
"""

import math
import random
from collections.abc import Sequence
from statistics import NormalDist, fmean, median
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
    spread less than ones and zeros of the same mean do, so the interval is then rather too wide.
    """
    share = passed / n
    width = 1 + _Z**2 / n
    middle = (share + _Z**2 / (2 * n)) / width
    half = _Z / width * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return _interval(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)), n)


def mcnemar(wins: int, losses: int) -> float:
    """Return the two-sided p of McNemar's exact test: how likely so uneven a split is if nothing differs.

    Where cases have several runs it is the sign test of the differences of their means, which is the same
    test: valid as long as both sides have as many runs of a case.
    """
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / (1 << n))


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Return each p, adjusted for that so many were asked for (Holm 1979), in the same order."""
    adjusted = [0.0] * len(ps)
    least = 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = least
    return tuple(adjusted)


def bootstrap(differences: Sequence[float], *, is_share: bool) -> Interval:
    """Return the mean of the differences of at least one case, with the interval of resampled cases.

    Of amounts it is the median: costs are skewed. Of shares that are all the same, resampling has nothing to
    say; then the interval is what other cases, as many as Wilson's of none allows, could make of the mean.
    """
    n = len(differences)
    middle = fmean if is_share else median
    value = middle(differences)
    if n == 1 or min(differences) == max(differences):
        unseen = wilson(0, n).high if is_share else 0.0
        return _interval(value, value - unseen * (value + 1), value + unseen * (1 - value), n)
    choices = random.Random(0).choices  # noqa: S311 - the same figures every time
    values = sorted(middle(choices(differences, k=n)) for _ in range(RESAMPLES))
    # A little wider apart than 2.5 and 97.5 per cent, as Student's t is wider than the normal distribution:
    # those promise 95 % and hold 90 % for ten cases (Hesterberg 2015, "expanded percentile").
    wider = math.sqrt(n / (n - 1)) * (1 + (_Z**2 + 1) / (4 * (n - 1)))
    tail = int(RESAMPLES * NormalDist().cdf(-_Z * wider))
    return _interval(value, values[tail], values[-1 - tail], n)


def _interval(value: float, low: float, high: float, n: int) -> Interval:
    return Interval(value=round(value, _DIGITS), low=round(low, _DIGITS), high=round(high, _DIGITS), n=n)
