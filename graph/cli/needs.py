"""skills-agent skills needs: what a skill needs, what of it is here, and what brings the rest."""

from pathlib import Path

import click
from msgspec import structs

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import print_json, print_section, table
from skills_agent.graph.settings import Settings, registry_of


@click.command(epilog=options.examples("skills needs csv-report", "skills needs csv-report --json"))
@click.argument("name")
@options.folders
@options.as_json
def needs(name: str, workspace: Path | None, skills_dirs: tuple[Path, ...], as_json: bool) -> None:
    """Show what skill NAME (or NAME@SOURCE) needs of this machine, and what is missing."""
    from skills_agent.graph.machine import machine_of
    from skills_agent.skills.needs.here import NOUNS

    settings = Settings.load(workspace)
    registry = registry_of(settings, skills_dirs)
    metadata = registry.refresh().find(name)
    needed = registry.needs(metadata.ref)
    machine = machine_of(settings)
    missing = machine.missing(needed, metadata.ref, trusted=metadata.trusted)
    remedies = machine.remedies(missing, metadata.ref)
    absent = {each.need: each for each in missing}
    if as_json:
        rows = [{**structs.asdict(need), "is_missing": need in absent} for need in needed]
        print_json({"needs": rows, "remedies": remedies})
        return
    lines = []
    for need in needed:
        noun = NOUNS[need.kind][0] if need.kind in NOUNS else need.kind
        state = "-" if need.kind not in NOUNS else "here"
        if need in absent:
            state = f"not here ({absent[need].present})" if absent[need].present else "not here"
        lines.append((f"{need.name}{need.specifier}", noun, state, need.said))
    table(lines, empty=f"{metadata.name} says nothing of what it needs, and its files show nothing.")
    print_section("What would help", remedies)
