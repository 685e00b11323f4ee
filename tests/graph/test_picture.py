"""The graph that runs is the graph in the docs."""

from pathlib import Path

from skills_agent.graph import build_graph
from skills_agent.graph.settings import Settings

PROJECT = Path(__file__).resolve().parent.parent.parent


def test_the_drawn_graph_is_the_one_in_the_docs_and_the_readme(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path, home=tmp_path)
    drawn = build_graph(settings).compile().get_graph().draw_mermaid()
    assert (PROJECT / "docs" / "graph.mmd").read_text(encoding="utf-8") == drawn
    assert drawn.strip() in (PROJECT / "README.md").read_text(encoding="utf-8")
