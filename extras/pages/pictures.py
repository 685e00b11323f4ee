"""Pictures of a turn, drawn by us: the graph with the path taken, and what each step took.

A turn is the steps from its input to the next one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, product
from math import atan2, degrees
from typing import Final
from xml.etree.ElementTree import Element

from langchain_core.runnables.graph import Graph

from skills_agent.graph.threads.steps import ThreadStep
from skills_agent.pages.html import element
from skills_agent.skills.text import cut

_WIDTH: Final = 326
_ROWS: Final = ("summarize select load", "discover decide answer", "gate approve act", "- - fork")
_PLACES: Final = {
    name: (45.0 + 118 * column, 24.0 + 66 * row)
    for row, names in enumerate(_ROWS)
    for column, name in enumerate(names.split())
    if name != "-"
}
"""The middle of each node of ours; a host's own are not drawn."""
_BEND: Final = 0.22
"""How far the middle of an edge is beside the straight line, of its length: there and back are two lines."""
_ROW: Final = 18
_OPEN: Final = 3
"""Turns up to which the pictures of each are open."""
_BARS: Final = {"tokens": (66, 72), "time": (196, 70)}
"""Where bars begin, and how wide the longest is."""


def pictures_of(steps: Sequence[ThreadStep], graph: Graph) -> Mapping[str, Element]:
    """Return the pictures of each turn by the ids of the messages that it began with.

    What a fork has from before it is in no turn.
    """
    begun = [place for place, step in enumerate(steps) if "input" in step.nodes]
    found: dict[str, Element] = {}
    for start, end in pairwise([*begun, len(steps)]):
        turn = steps[start:end]
        drawn = element(
            "details",
            element("summary", "The path of this turn"),
            element("div", _graph(turn, graph), _bars(turn), class_="columns"),
            class_="path",
            **({"open": "open"} if len(begun) <= _OPEN else {}),
        )
        found |= dict.fromkeys((str(each["id"]) for each in turn[0].changed.get("messages", ())), drawn)
    return found


def _graph(turn: Sequence[ThreadStep], graph: Graph) -> Element:
    """Return the graph with the nodes that ran, the edges that were taken, how often, and where it waits."""
    ran = [{*step.nodes} for step in turn[1:]]
    kinds = {**dict.fromkeys(set().union(*ran), "ran"), **dict.fromkeys(turn[-1].next, "next")}
    # Of nodes side by side, each leads on.
    taken = Counter(edge for before, after in pairwise(ran) for edge in product(before, after))
    edges = [(each.source, each.target) for each in graph.edges if {each.source, each.target} <= {*_PLACES}]
    return element(
        "svg",
        element("title", " → ".join(", ".join(nodes) for nodes in ran)),
        *(each for edge in sorted(edges, key=taken.__getitem__) for each in _edge(*edge, taken[edge])),
        *(each for name in _PLACES for each in _node(name, kinds.get(name, ""))),
        viewBox=f"0 0 {_WIDTH} {66 * len(_ROWS) - 10}",
        role="img",
    )


def _edge(source: str, target: str, times: int) -> Iterator[Element]:
    """Yield an edge, with an arrow in its middle: its ends are below the boxes."""
    (x, y), (to_x, to_y) = _PLACES[source], _PLACES[target]
    middle_x, middle_y = (x + to_x) / 2, (y + to_y) / 2
    bend_x, bend_y = (y - to_y) * _BEND, (to_x - x) * _BEND
    kind = "way taken" if times else "way"
    control = f"{middle_x + bend_x:.1f} {middle_y + bend_y:.1f}"
    yield element("path", d=f"M{x} {y}Q{control} {to_x} {to_y}", class_=kind)
    place = f"translate({middle_x + bend_x / 2:.1f} {middle_y + bend_y / 2:.1f})"
    turned = f"{place} rotate({degrees(atan2(to_y - y, to_x - x)):.0f})"
    yield element("path", d="M-4 -4L5 0L-4 4Z", transform=turned, class_=f"{kind} tip")
    if times > 1:
        yield _text(f"{times}×", middle_x, middle_y + 4, "times")


def _node(name: str, kind: str) -> Iterator[Element]:
    x, y = _PLACES[name]
    yield element("rect", x=x - 39, y=y - 14, width=78, height=28, rx=8, class_=f"node {kind}")
    yield _text(name, x, y + 4.5, f"node name {kind}")


def _bars(turn: Sequence[ThreadStep]) -> Element:
    """Return what each step took, tokens and time, as bars. The time of an approval is a person's."""
    rows = [(step, _tokens(step), _seconds(before, step)) for before, step in pairwise(turn)]
    own = [seconds for step, _, seconds in rows if "approve" not in step.nodes]
    most, longest = max((tokens for _, tokens, _ in rows), default=0) or 1, max(own, default=0) or 1
    heads = (f"{sum(tokens for _, tokens, _ in rows):,} tokens", _duration(sum(own)))
    parts = [_text(head, start, 12, "head") for head, (start, _) in zip(heads, _BARS.values(), strict=True)]
    for row, (step, tokens, seconds) in enumerate(rows, 1):
        share, before = (0, "waited ") if "approve" in step.nodes else (seconds / longest, "")
        parts.append(_text(cut(", ".join(dict.fromkeys(step.nodes)), 11), 0, row * _ROW + 12, "step"))
        parts += _bar("tokens", row, tokens / most, f"{tokens:,}") if tokens else []
        parts += _bar("time", row, share, f"{before}{_duration(seconds)}")
    return element("svg", *parts, viewBox=f"0 0 {_WIDTH} {len(turn) * _ROW + 2}", role="img", class_="bars")


def _tokens(step: ThreadStep) -> int:
    return sum(event.get("input_tokens", 0) + event.get("output_tokens", 0) for event in step.events)


def _seconds(before: ThreadStep, step: ThreadStep) -> float:
    return max((datetime.fromisoformat(step.when) - datetime.fromisoformat(before.when)).total_seconds(), 0)


def _bar(name: str, row: int, share: float, said: str) -> Iterator[Element]:
    start, longest = _BARS[name]
    width = share * longest
    yield element("rect", x=start, y=row * _ROW + 2, width=f"{width:.1f}", height=12, class_=name)
    yield _text(said, start + width + 5 * (share > 0), row * _ROW + 12, "value")


def _text(text: str, x: float, y: float, kind: str) -> Element:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_=kind)


def _duration(seconds: float) -> str:
    """Return a time; from a minute on as hours, minutes and seconds."""
    return f"{seconds:.2f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
