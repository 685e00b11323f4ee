"""skills-agent skills doctor: why is a skill not there, or not as written? Imports no LangGraph."""

from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.findings import diagnostic_json, diagnostic_line, entry_json
from skills_agent.graph.cli.printing import echo, line_of, print_json, table
from skills_agent.graph.settings import Settings, process_environment, registry_of
from skills_agent.skills.library.catalog import CatalogEntry
from skills_agent.skills.library.checkup import Checkup, SourceState, check_up
from skills_agent.skills.scripts.choice import Isolation, isolation_here
from skills_agent.skills.scripts.programs import Program, wanted_programs


@click.command(epilog="\b\nExamples:\n  skills-agent skills doctor\n  skills-agent skills doctor --json\n")
@options.workspace
@options.skills_dirs
@options.as_json
def doctor(workspace: Path | None, skills_dirs: tuple[Path, ...], as_json: bool) -> None:
    """Say where skills come from, which are not used as they are written and why, and what is missing."""
    settings = Settings.load(workspace)
    checkup = check_up(registry_of(settings, skills_dirs))
    programs = wanted_programs()
    isolation = isolation_here(settings.sandbox, process_environment().get("PATH"))
    if as_json:
        print_json({**_checkup_json(checkup, programs), "isolation": isolation._asdict()})
        return
    _print_sources(checkup)
    _print_entries("Shadowed: a stronger source has a skill of that name", checkup.shadowed)
    _print_entries("Skipped", checkup.skipped)
    if checkup.repaired:
        click.echo("\nRepaired: used, though not as written")
    for repaired in checkup.repaired:
        for found in repaired.repairs:
            click.echo(f"  {diagnostic_line(found)}")
    if checkup.reported:
        click.echo("\nPassed over")
    for found in checkup.reported:
        click.echo(f"  {diagnostic_line(found)}")
    _print_programs(programs)
    _print_isolation(isolation)


def _print_sources(checkup: Checkup) -> None:
    click.echo("Sources, the strongest last")
    table(
        [("  " + state.label, _trust(state), _holds(state), state.folder or "") for state in checkup.sources]
    )
    if not checkup.sources:
        click.echo("  none: skills are turned off (enable_skills)")


def _trust(state: SourceState) -> str:
    return "trusted" if state.trusted else "not trusted"


def _holds(state: SourceState) -> str:
    if not state.exists:
        return "no such folder"
    counts = ((state.shown, "shown"), (state.shadowed, "shadowed"), (state.skipped, "skipped"))
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "no skills"


def _print_entries(title: str, entries: tuple[CatalogEntry, ...]) -> None:
    if entries:
        click.echo(f"\n{title}")
    for entry in entries:
        echo(f"  {line_of(entry.name)} ({entry.source}) {line_of(entry.path)}\n    {line_of(entry.reason)}")


def _print_programs(programs: tuple[Program, ...]) -> None:
    click.echo("\nPrograms that scripts want")
    for program in programs:
        if program.path:
            click.echo(f"  {program.name}: {line_of(program.path)}")
            continue
        instead = f", nor is {' or '.join(program.substitutes)}" if program.substitutes else ""
        click.echo(f"  {program.name} is not installed{instead}: {program.purpose} do not run here")


def _print_isolation(isolation: Isolation) -> None:
    words = {
        None: "are refused: a sandbox is required",
        "controlled": "run WITHOUT a sandbox, with all rights of this user",
        "bwrap": "run in a sandbox (bubblewrap)",
    }
    click.echo(f"\nScripts {words[isolation.level]}\n  {line_of(isolation.reason)}")


def _checkup_json(checkup: Checkup, programs: tuple[Program, ...]) -> dict[str, Any]:
    return {
        "sources": [state._asdict() for state in checkup.sources],
        "shadowed": [entry_json(entry) for entry in checkup.shadowed],
        "skipped": [entry_json(entry) for entry in checkup.skipped],
        "repaired": [
            {
                **entry_json(repaired.entry),
                "diagnostics": [diagnostic_json(found) for found in repaired.repairs],
            }
            for repaired in checkup.repaired
        ],
        "diagnostics": [diagnostic_json(found) for found in checkup.reported],
        "programs": [program._asdict() for program in programs],
    }
