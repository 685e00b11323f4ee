"""skills-agent graph: the picture."""

import click


@click.command("graph")
def picture() -> None:
    """Print the graph that every run follows, as a Mermaid diagram."""
    from skills_agent.graph.build import build_graph

    click.echo(build_graph().compile().get_graph().draw_mermaid().rstrip())
