"""Small charts as SVG, in the colours of the page."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from skills_agent.graph.pages.elements import Html, element

_WIDTH: Final = 220
_HEIGHT: Final = 18
_PLOT: Final = (420, 240)
_EDGE: Final = 44


class Point(NamedTuple):
    """One point of a scatter."""

    label: str
    x: float
    y: float
    """From 0 to 1."""
    low: float
    high: float


def bar(value: float, low: float, high: float) -> Html:
    """Return a share from 0 to 1 as a bar, with its interval as a line."""
    at = [round(each * _WIDTH, 1) for each in (value, low, high)]
    middle = _HEIGHT / 2
    return _svg(
        _WIDTH,
        _HEIGHT,
        element("rect", x=0, y=4, width=_WIDTH, height=10, class_="track"),
        element("rect", x=0, y=4, width=at[0], height=10, class_="bar"),
        element("line", x1=at[1], x2=at[2], y1=middle, y2=middle, class_="interval"),
        element("line", x1=at[1], x2=at[1], y1=middle - 4, y2=middle + 4, class_="interval"),
        element("line", x1=at[2], x2=at[2], y1=middle - 4, y2=middle + 4, class_="interval"),
    )


def difference(value: float, low: float, high: float, most: float = 1.0) -> Html:
    """Return a difference between -most and most as a point with its interval, around a line at zero."""
    scale = _WIDTH / 2 / (max(most, abs(low), abs(high)) or 1.0)
    at = [round(_WIDTH / 2 + each * scale, 1) for each in (value, low, high)]
    middle = _HEIGHT / 2
    return _svg(
        _WIDTH,
        _HEIGHT,
        element("rect", x=0, y=4, width=_WIDTH, height=10, class_="track"),
        element("line", x1=_WIDTH / 2, x2=_WIDTH / 2, y1=0, y2=_HEIGHT, class_="zero"),
        element("line", x1=at[1], x2=at[2], y1=middle, y2=middle, class_="interval"),
        element("circle", cx=at[0], cy=middle, r=4, class_="dot"),
    )


def scatter(points: Sequence[Point], x_title: str, y_title: str) -> Html:
    """Return points with intervals upwards: what it costs to the right, how good it is upwards."""
    width, height = _PLOT
    most = max((point.x for point in points), default=0.0) * 1.1 or 1.0

    def across(x: float) -> float:
        return round(_EDGE + x / most * (width - _EDGE - 90), 1)

    def up(y: float) -> float:
        return round(height - _EDGE + 8 - y * (height - _EDGE - 8), 1)

    drawn: list[Html] = [
        element("line", x1=_EDGE, x2=width, y1=up(0), y2=up(0), class_="axis"),
        element("line", x1=_EDGE, x2=_EDGE, y1=up(0), y2=up(1), class_="axis"),
        element("text", x_title, x=width - 4, y=up(0) + 30, text_anchor="end"),
        element("text", f"{most:,.0f}", x=across(most), y=up(0) + 15, text_anchor="middle"),
        element("text", "0", x=_EDGE, y=up(0) + 15, text_anchor="middle"),
        element("text", y_title, x=4, y=12),
        element("text", "100 %", x=_EDGE - 6, y=up(1) + 14, text_anchor="end"),
        element("text", "0 %", x=_EDGE - 6, y=up(0), text_anchor="end"),
    ]
    for point in points:
        x = across(point.x)
        drawn += [
            element("line", x1=x, x2=x, y1=up(point.low), y2=up(point.high), class_="interval"),
            element("circle", cx=x, cy=up(point.y), r=5, class_="dot"),
            element("text", point.label, x=x + 9, y=up(point.y) + 4),
        ]
    return _svg(width, height, *drawn, class_="scatter")


def _svg(width: int, height: int, *drawn: Html, class_: str = "chart") -> Html:
    # What a chart shows stands beside it as text.
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_=class_,
        aria_hidden="true",
    )
