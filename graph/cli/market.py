"""skills-agent skills search --market: what the operator's index of skills has."""

import click

from skills_agent.graph.cli.packages import market_of
from skills_agent.graph.cli.printing import echo, print_json, table
from skills_agent.graph.settings import Settings
from skills_agent.skills.library.listing import first_sentence
from skills_agent.skills.packages.market import read_market


def show_market(settings: Settings, query: str, limit: int, *, as_json: bool) -> None:
    """Print the newest version of each skill that has all words of a query. Raises PackageError."""
    if not settings.market:
        raise click.UsageError(
            "there is no market: set the setting market to the file or the URL of its index."
        )
    market = read_market(market_of(settings))
    hits = market.search(query)[:limit]
    if as_json:
        keys = ("name", "version", "source", "digest", "description", "keywords")
        print_json([{key: getattr(each, key) for key in keys} for each in hits])
        return
    if not hits:
        echo(f"Nothing in {market.place} has all of these words.")
        return
    table([(each.name, each.version, each.source, first_sentence(each.description)) for each in hits])
    echo(f"To install: skills-agent skills install {hits[0].name}")
