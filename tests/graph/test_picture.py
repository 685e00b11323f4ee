"""The graph that runs is the graph in the docs and the one in the README."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from langchain_core.runnables.graph import Graph

from skills_agent.graph import build_graph
from skills_agent.graph.settings import Settings

PROJECT = Path(__file__).resolve().parent.parent.parent
ENDS = {"begin": "__start__", "done": "__end__"}

Edge = tuple[str, str]


class Picture(NamedTuple):
    """The grouped picture of the README: its arrows, and the nodes of each box."""

    arrows: list[Edge]
    boxes: dict[str, set[str]]

    def edges(self, arrow: Edge) -> set[Edge]:
        """Return the edges that an arrow may stand for: an arrow from a box leaves any node in it."""
        source, target = arrow
        return set(product(self.boxes.get(source, {source}), self.boxes.get(target, {target})))


def drawn_in_readme() -> Picture:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    text = readme.partition("```mermaid\n")[2].partition("```")[0]
    boxes: dict[str, set[str]] = {}
    for name, body in re.findall(r"subgraph (\w+).*?\n(.*?)\n    end\n", text, re.DOTALL):
        boxes[name] = {node for arrow in _arrows(body) for node in arrow}
    return Picture(list(_arrows(text)), boxes)


def _arrows(text: str) -> Iterator[Edge]:
    for source, target in re.findall(r"^\s*(\w+)(?:\(\[.*?\]\))? --.*?> (\w+)", text, re.MULTILINE):
        yield ENDS.get(source, source), ENDS.get(target, target)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return build_graph(Settings(workspace=tmp_path, home=tmp_path)).compile().get_graph()


def test_the_drawn_graph_is_the_one_in_the_docs(graph: Graph) -> None:
    assert (PROJECT / "docs" / "graph.mmd").read_text(encoding="utf-8") == graph.draw_mermaid()


def test_the_picture_of_the_readme_has_the_edges_of_the_graph_and_no_others(graph: Graph) -> None:
    edges = {(edge.source, edge.target) for edge in graph.edges}
    picture = drawn_in_readme()
    assert {arrow for arrow in picture.arrows if not picture.edges(arrow) & edges} == set()
    assert edges - {edge for arrow in picture.arrows for edge in picture.edges(arrow)} == set()


def test_every_conditional_edge_says_when_it_is_taken(graph: Graph) -> None:
    labels = {edge["data"] for edge in graph.to_json()["edges"] if edge.get("conditional")}
    assert len(labels) > 10
    assert not labels & {None, *graph.nodes}
