"""Small charts as SVG, in the colours of the page. What a chart shows stands beside it as text."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from skills_agent.evals.pages.elements import Html, element

_WIDTH: Final = 180
_HEIGHT: Final = 18
_SCALE: Final = 16
"""Height of what stands under a chart."""
_PLOT: Final = (720, 300)
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 28, 44
_LETTER: Final = 6.5
"""Width of a letter, about."""
_LINE: Final = 15


class Point(NamedTuple):
    """One point of a scatter."""

    label: str
    x: float
    y: float
    """From 0 to 1."""
    low: float
    high: float
    is_filled: bool = True


def bar(value: float, low: float, high: float) -> Html:
    """Return a share from 0 to 1 as a bar, with its interval as a line."""
    at = [round(each * _WIDTH, 1) for each in (value, low, high)]
    middle = _HEIGHT / 2
    return _svg(
        _WIDTH,
        _HEIGHT,
        element("rect", x=0, y=4, width=_WIDTH, height=10, rx=2, class_="track"),
        element("rect", x=0, y=4, width=at[0], height=10, rx=2, class_="bar"),
        *_whisker(at[1], at[2], middle),
    )


def difference(
    value: float, low: float, high: float, tone: str = "open", *, width: int = _WIDTH, has_scale: bool = False
) -> Html:
    """Return a difference of shares, from -1 to 1, as a point with its interval around a line at zero.

    The scale is that of the difference, at least a fifth on each side, so that a small one can be seen. Its
    colour is that of the tone: better, worse or open.
    """
    most = max(0.2, math.ceil(10 * max(abs(low), abs(high), abs(value))) / 10)
    inner = width - 12
    at = [round(6 + inner / 2 + each * inner / 2 / most, 1) for each in (value, low, high)]
    middle = _HEIGHT / 2
    drawn = [
        element("rect", x=0, y=4, width=width, height=10, rx=2, class_="track"),
        element("line", x1=width / 2, x2=width / 2, y1=0, y2=_HEIGHT, class_="zero"),
        *_whisker(at[1], at[2], middle),
        element("circle", cx=at[0], cy=middle, r=5, class_=f"dot {tone}"),
    ]
    if has_scale:
        ends = [(2, "start", f"-{100 * most:.0f}"), (width / 2, "middle", "0")]
        ends.append((width - 2, "end", f"+{100 * most:.0f} points"))
        drawn += [element("text", said, x=x, y=_HEIGHT + 12, text_anchor=anchor) for x, anchor, said in ends]
    return _svg(width, _HEIGHT + (_SCALE if has_scale else 0), *drawn)


def scatter(points: Sequence[Point], x_title: str, y_title: str) -> Html:
    """Return points with intervals upwards: what it costs to the right, how good it is upwards."""
    width, height = _PLOT
    most = _round_up(max((point.x for point in points), default=0.0) * 1.15)
    bottom = height - _BOTTOM

    def across(x: float) -> float:
        return round(_LEFT + x / most * (width - _LEFT - _RIGHT), 1)

    def up(y: float) -> float:
        return round(bottom - y * (bottom - _TOP), 1)

    drawn: list[Html] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawn.append(element("line", x1=_LEFT, x2=width - _RIGHT, y1=up(share), y2=up(share), class_="grid"))
        drawn.append(element("text", f"{100 * share:.0f} %", x=_LEFT - 6, y=up(share) + 4, text_anchor="end"))
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        said = f"{most * part:,.0f}" if most >= 100 else f"{most * part:.4g}"
        drawn.append(element("text", said, x=across(most * part), y=bottom + 16, text_anchor="middle"))
    drawn.append(element("text", x_title, x=width - _RIGHT, y=bottom + 34, text_anchor="end"))
    drawn.append(element("text", y_title, x=_LEFT, y=12))
    taken: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda point: -point.y):
        drawn += _point(point, across(point.x), up, width, taken)
    return _svg(width, height, *drawn, class_="scatter")


def _point(
    point: Point, x: float, up: Callable[[float], float], width: int, taken: list[tuple[float, float]]
) -> Iterator[Html]:
    """Yield one point and its label, left of it where there is no place, lower where another label stands."""
    y = up(point.y)
    yield element("line", x1=x, x2=x, y1=up(point.low), y2=up(point.high), class_="interval")
    yield element("circle", cx=x, cy=y, r=6, class_="dot" if point.is_filled else "dot hollow")
    is_left = x + 12 + _LETTER * len(point.label) > width
    at = x - 12 if is_left else x + 12
    below = y + 4
    while any(
        abs(below - other) < _LINE and abs(at - place) < _LETTER * len(point.label) for place, other in taken
    ):
        below += _LINE
    taken.append((at, below))
    yield element(
        "text", point.label, x=at, y=below, text_anchor="end" if is_left else "start", class_="label"
    )


def _round_up(most: float) -> float:
    """Return a number that quarters well, not below another: 1, 2, 4 or 8 times a power of ten."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= most)


def _whisker(low: float, high: float, middle: float) -> Iterator[Html]:
    yield element("line", x1=low, x2=high, y1=middle, y2=middle, class_="interval")
    for end in (low, high):
        yield element("line", x1=end, x2=end, y1=middle - 4, y2=middle + 4, class_="interval")


def _svg(width: int, height: int, *drawn: Html, class_: str = "chart") -> Html:
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_=class_,
        aria_hidden="true",
    )
