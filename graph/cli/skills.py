"""skills-agent skills: see the skills that there are, check them, begin one. Imports no LangGraph."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.findings import diagnostic_json, diagnostic_line, entry_json
from skills_agent.graph.cli.lazy import LazyGroup
from skills_agent.graph.cli.printing import echo, line_of, print_json, table
from skills_agent.graph.cli.scaffold import write_skill
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.listing import first_sentence
from skills_agent.skills.library.resources import summarize
from skills_agent.skills.skill import Resource, Skill, SkillMetadata


@click.group(
    cls=LazyGroup,
    homes={
        "search": "skills_agent.graph.cli.search:search",
        "lint": "skills_agent.graph.cli.lint:lint",
        "doctor": "skills_agent.graph.cli.doctor:doctor",
    },
)
def skills() -> None:
    """See the skills that there are, check them, and begin a new one."""


@skills.command(
    "list", epilog="\b\nExamples:\n  skills-agent skills list\n  skills-agent skills list --all --json\n"
)
@click.option("--all", "everything", is_flag=True, help="Also those that are shadowed or skipped, and why.")
@options.workspace
@options.skills_dirs
@options.as_json
def list_skills(
    everything: bool,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """List skills with their source and what they are for."""
    settings = Settings.load(workspace)
    catalog = registry_of(settings, skills_dirs).refresh()
    if as_json:
        print_json(_catalog_json(catalog, everything=everything))
        return
    rows = [(skill.name, skill.source, first_sentence(skill.description)) for skill in catalog.skills]
    table(rows)
    if not rows:
        click.echo(_where_to_put_some(settings))
    _print_problems(catalog, everything=everything)


@skills.command("show", epilog="\b\nExamples:\n  skills-agent skills show csv-report\n")
@click.argument("name")
@options.workspace
@options.skills_dirs
@options.as_json
def show_skill(
    name: str,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show what skill NAME (or NAME@SOURCE) says, and its files."""
    registry = registry_of(Settings.load(workspace), skills_dirs)
    metadata = registry.refresh().find(name)
    skill = registry.load(metadata.ref)
    resources = registry.resources(metadata.ref).resources
    if as_json:
        print_json(_skill_json(skill, resources))
        return
    rows = [(label, value) for label, value in _facts(metadata, resources) if value]
    table(rows)
    for each in skill.diagnostics:
        click.echo(diagnostic_line(each))
    echo(f"\n{skill.instructions.strip()}")


@skills.command("new", epilog="\b\nExamples:\n  skills-agent skills new invoice-check\n")
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Put the skill's folder into this one. [default: .agent/skills]",
)
@options.workspace
def new_skill(name: str, folder: Path | None, workspace: Path | None) -> None:
    """Begin skill NAME: a SKILL.md to fill in, and folders for scripts, references and assets."""
    made = write_skill(folder or Settings.load(workspace).workspace / ".agent" / "skills", name)
    click.echo(f"Made {made}. Say in {made / 'SKILL.md'} what the skill does and when to use it.")


def _where_to_put_some(settings: Settings) -> str:
    return (
        f"No skills yet. Put folders with a SKILL.md under {settings.workspace / '.agent' / 'skills'} (this "
        f"project) or {settings.home / '.agent' / 'skills'} (all your projects), or begin one: "
        "skills-agent skills new NAME"
    )


def _print_problems(catalog: Catalog, *, everything: bool) -> None:
    """Print what is not listed above, and why; in short unless everything is wanted."""
    hidden = [entry for entry in catalog.entries if entry.status != "shown"]
    skipped = [entry for entry in hidden if entry.status == "skipped"]
    if not everything:
        if skipped:
            noun = "1 skill was" if len(skipped) == 1 else f"{len(skipped)} skills were"
            click.echo(f"\n{noun} skipped. Why: skills-agent skills list --all", err=True)
        return
    for entry in hidden:
        click.echo(
            f"\n{line_of(entry.name)} ({entry.status}) {line_of(entry.path)}\n  {line_of(entry.reason)}"
        )
    findings = [each for each in catalog.diagnostics if each.severity != "info"]
    if findings:
        click.echo()
    for each in findings:
        click.echo(diagnostic_line(each))


def _facts(skill: SkillMetadata, resources: Sequence[Resource]) -> list[tuple[str, str]]:
    return [
        ("name", skill.name),
        ("description", skill.description),
        ("source", skill.source),
        ("path", skill.path),
        ("version", skill.version or ""),
        ("author", skill.author or ""),
        ("license", skill.license or ""),
        ("compatibility", skill.compatibility or ""),
        ("allowed-tools", " ".join(skill.allowed_tools or ())),
        ("files", ", ".join(resource.path for resource in resources)),
        ("", summarize(resources)),
    ]


def _catalog_json(catalog: Catalog, *, everything: bool) -> list[dict[str, Any]]:
    entries = {(entry.source, entry.path): entry for entry in catalog.entries}
    told = []
    for skill in catalog.skills:
        entry = entries[skill.source, skill.path]
        told.append({**entry_json(entry), "description": skill.description})
    if everything:
        told += [entry_json(entry) for entry in catalog.entries if entry.status != "shown"]
    return told


def _skill_json(skill: Skill, resources: Sequence[Resource]) -> dict[str, Any]:
    metadata = skill.metadata
    return {
        "name": metadata.name,
        "description": metadata.description,
        "source": metadata.source,
        "path": metadata.path,
        "digest": skill.digest,
        "license": metadata.license,
        "compatibility": metadata.compatibility,
        "allowed_tools": metadata.allowed_tools,
        "metadata": dict(metadata.metadata),
        "resources": [{"path": each.path, "type": each.type, "size": each.size} for each in resources],
        "diagnostics": [diagnostic_json(each) for each in skill.diagnostics],
        "instructions": skill.instructions,
    }
