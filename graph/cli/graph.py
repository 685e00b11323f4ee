"""skills-agent graph: the picture."""

import click

from skills_agent.graph.build import build_graph


@click.command()
def graph() -> None:
    """Print the graph that every run follows, as a Mermaid diagram."""
    click.echo(build_graph().compile().get_graph().draw_mermaid().rstrip())
