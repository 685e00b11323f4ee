"""skills-agent skills search: which skill is there for this? Imports no LangGraph."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import print_json, table
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.skills.library.listing import first_sentence


@click.command(epilog='\b\nExamples:\n  skills-agent skills search "totals from a spreadsheet" --limit 3\n')
@click.argument("query")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="At most so many.")
@options.workspace
@options.skills_dirs
@options.as_json
def search(
    query: str, limit: int, workspace: Path | None, skills_dirs: tuple[Path, ...], as_json: bool
) -> None:
    """Find the skills that QUERY, in plain words, asks for: the best first."""
    hits = registry_of(Settings.load(workspace), skills_dirs).refresh().search(query, limit)
    if as_json:
        print_json(
            [
                {
                    "name": hit.skill.name,
                    "source": hit.skill.source,
                    "path": hit.skill.path,
                    "description": hit.skill.description,
                    "score": hit.score,
                }
                for hit in hits
            ]
        )
        return
    table([(hit.skill.name, hit.skill.source, first_sentence(hit.skill.description)) for hit in hits])
    if not hits:
        click.echo("No skill matches. All that there are: skills-agent skills list")
