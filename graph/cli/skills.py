"""skills-agent skills: list, show, search, check and begin skills. Imports no LangGraph."""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Final

import click
from msgspec import structs

from skills_agent.graph.cli import options
from skills_agent.graph.cli.doctor import diagnostic_line, signer_of, untrusted_in_place
from skills_agent.graph.cli.lazy import LazyGroup
from skills_agent.graph.cli.printing import echo, line_of, print_json, print_section, table
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.skills.confined import is_beneath
from skills_agent.skills.format.rules import MAX_NAME, NEW_DESCRIPTION, is_spec_name
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.listing import first_sentence
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import read_bytes, resources
from skills_agent.skills.skill import Skill, SkillMetadata
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible_line

_KNOWN: Final = (
    *("description", "version", "model_invocable", "user_invocable", "argument_hint", "requires"),
    "trusted",
)
"""What discovery knows of a skill, for `list --json`."""
_MAX_HITS: Final = 5
_TEMPLATE: Final = """\
---
name: {name}
description: "{description}"
---

# {title}

TODO: say here, step by step, what to do. Only this text is read when the skill is loaded: put detail that
is not always needed into `references/`, programs into `scripts/`, and name the file where it is needed.
"""


@click.group(cls=LazyGroup, path="skills")
def skills() -> None:
    """List, search, check, create and install skills."""


@click.group(cls=LazyGroup, path="publish")
def publish() -> None:
    """Pack, sign and serve skills for others."""


@skills.command("list", epilog=options.examples("skills list", "skills list --json"))
@options.folders
@options.as_json
def list_skills(*, workspace: Path | None, skills_dirs: tuple[Path, ...], as_json: bool) -> None:
    """List skills with their source, who may load them, what they require, and their description."""
    settings = Settings.load(workspace)
    catalog = registry_of(settings, skills_dirs).refresh()
    if as_json:
        in_place = untrusted_in_place(settings, catalog)
        entries = {(each.source, each.path): each for each in catalog.entries if each.status == "shown"}
        print_json(
            [
                structs.asdict(entries[skill.source, skill.path])
                | {key: getattr(skill, key) for key in _KNOWN}
                | {"note": in_place.get(skill.name, "")}
                for skill in catalog.skills
            ]
        )
        return
    print_catalog(settings, catalog)


def print_catalog(settings: Settings, catalog: Catalog, loaded: Collection[str] = ()) -> None:
    """List the skills of a catalog, with which are loaded, and what is wrong with others."""
    places = (folder / ".agent" / "skills" for folder in (settings.workspace, settings.home))
    here, home = (visible_line(str(place)) for place in places)
    table(
        [
            (each.name, each.source, f"{_marks(each, loaded)}{first_sentence(each.description)}")
            for each in catalog.skills
        ],
        empty=f"No skills yet. Put folders with a SKILL.md under {here} (this project) or {home} (all your "
        "projects), or begin one: skills-agent skills new NAME",
    )
    print_section("Untrusted", map(line_of, untrusted_in_place(settings, catalog).values()))
    if skipped := sum(entry.status == "skipped" for entry in catalog.entries):
        noun = "skill was" if skipped == 1 else "skills were"
        click.echo(f"\n{skipped} {noun} skipped. Why: skills-agent doctor", err=True)
    for found in catalog.diagnostics:
        if found.code == "source-unreachable":
            click.echo(f"\nSkills may be missing. {line_of(found.message)}", err=True)


def _marks(skill: SkillMetadata, loaded: Collection[str] = ()) -> str:
    """Return what is known of a skill beside its description, in parentheses; often nothing."""
    marks = [
        "loaded" if skill.name in loaded else "",
        "" if skill.model_invocable else "only you load it",
        "" if skill.user_invocable else "only the model loads it",
        skill.argument_hint or "",
        f"requires {', '.join(skill.requires)}" if skill.requires else "",
    ]
    said = "; ".join(filter(None, marks))
    return f"({said}) " if said else ""


@skills.command("show", epilog=options.examples("skills show csv-report"))
@click.argument("name")
@options.folders
@options.as_json
def show_skill(name: str, workspace: Path | None, skills_dirs: tuple[Path, ...], as_json: bool) -> None:
    """Show the instructions and the files of skill NAME (or NAME@SOURCE)."""
    settings = Settings.load(workspace)
    registry = registry_of(settings, skills_dirs)
    catalog = registry.refresh()
    metadata = catalog.find(name)
    skill = registry.load(metadata.ref)
    ref = metadata.ref._replace(digest=skill.digest)
    listing, needed = resources(registry, ref), registry.needs(ref)
    if as_json:
        print_json(
            structs.asdict(metadata)
            | {"metadata": dict(metadata.metadata), "digest": skill.digest}
            | {"needs": [structs.asdict(need) for need in needed], "resources": listing.resources}
            | {"diagnostics": skill.diagnostics, "instructions": skill.instructions}
        )
        return
    fields = ("name", "description", "source", "path", "version", "author", "license", "compatibility")
    facts = [
        *((field, getattr(metadata, field)) for field in fields),
        ("allowed-tools", " ".join(metadata.allowed_tools or ())),
        ("use", _marks(metadata).strip(" ()")),
        ("trust", _trust_text(settings, catalog, metadata)),
        ("digest", skill.digest),
        ("plugin", registry.plugin_note(ref)),
        ("files", ", ".join(resource.path for resource in listing.resources)),
        ("needs", ", ".join(need.name for need in needed)),
    ]
    table([(label, value) for label, value in facts if value])
    for diagnostic in skill.diagnostics:
        click.echo(diagnostic_line(diagnostic))
    echo(f"\n{_written(registry, skill).strip()}")


def _trust_text(settings: Settings, catalog: Catalog, skill: SkillMetadata) -> str:
    """Say whether a skill's source, or its signer, is trusted, and which skills of its name it hides."""
    hidden = catalog.hidden_by(skill.name, skill.source)
    shadows = f"; in place of that of {', '.join(hidden)}" if hidden else ""
    signer = signer_of(settings, skill)
    signed = f"; trusted: signed by {signer}" if signer else ""
    return f"source {'trusted' if skill.trusted else 'not trusted'}{signed}{shadows}"


def _written(registry: Registry, skill: Skill) -> str:
    """Return the instructions; where the model reads a file without its hidden characters, the whole file."""
    if all(diagnostic.code != "invisible-characters" for diagnostic in skill.diagnostics):
        return skill.instructions
    ref = skill.metadata.ref
    return read_bytes(registry, ref, Path(ref.path).name).decode("utf-8", "replace")


@skills.command(
    "new", epilog=options.examples("skills new invoice-check", "skills new ../mine/invoice-check")
)
@click.argument("folder", metavar="NAME", type=click.Path(path_type=Path))
@options.workspace
def new_skill(folder: Path, workspace: Path | None) -> None:
    """Create skill NAME: a SKILL.md to fill in, and folders for scripts, references and assets.

    It goes into .agent/skills of the workspace, unless NAME is a path.
    """
    name = folder.name
    if not is_spec_name(name):
        rule = f"lowercase letters and digits with single hyphens between, at most {MAX_NAME} characters"
        raise click.UsageError(f"{name!r} is no name for a skill: use {rule}.")
    if folder == Path(name):
        place = Settings.load(workspace).workspace
        folder = place / ".agent" / "skills" / name
        if not is_beneath(place, folder):  # a repository can bring links
            raise click.ClickException(
                f"{folder.parent} leads out of the workspace. Name the folder that you mean: DIR/{name}"
            )
    text = _TEMPLATE.format(name=name, description=NEW_DESCRIPTION, title=name.replace("-", " ").capitalize())
    try:
        for part in ("", "scripts", "references", "assets"):
            (folder / part).mkdir(parents=True)
        (folder / "SKILL.md").write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise click.ClickException(f"{folder} exists already. Choose another name.") from error
    where = visible_line(str(folder))
    echo(f"Made {where}. It is used once {where}/SKILL.md says what the skill does and when to use it.")
    echo(f"To check it: skills-agent skills lint {visible_line(shlex.quote(str(folder)))}")


@skills.command("search", epilog=options.examples('skills search "totals from a spreadsheet"'))
@click.argument("query")
@options.folders
@options.as_json
def search_skills(query: str, workspace: Path | None, skills_dirs: tuple[Path, ...], as_json: bool) -> None:
    """Find skills for QUERY, in plain words, best match first.

    A score of 1.3 or more is a good match, one near 0 is chance.
    """
    hits = registry_of(Settings.load(workspace), skills_dirs).refresh().search(query, _MAX_HITS)
    if as_json:
        keys = ("name", "source", "path", "description")
        print_json([{**{key: getattr(skill, key) for key in keys}, "score": score} for skill, score in hits])
        return
    table(
        [
            (skill.name, f"{score:.2f}", skill.source, first_sentence(skill.description))
            for skill, score in hits
        ],
        empty="No skill matches. All that there are: skills-agent skills list",
    )


@skills.command(
    epilog="Exit codes: 0 no errors (there may be warnings), 1 errors.\n\n"
    + options.examples("skills lint my-skills/csv-report", "skills lint my-skills --json")
)
@click.argument("folder", metavar="DIR|NAME", type=click.Path(path_type=Path))
@click.option("--spec", is_flag=True, help="Fields that only some clients know are errors, too.")
@options.folders
@options.as_json
def lint(
    *, folder: Path, spec: bool, workspace: Path | None, skills_dirs: tuple[Path, ...], as_json: bool
) -> None:
    """Check the skill in DIR, or every skill below it, against agentskills.io/specification.

    If there is no such path, the skill of that NAME is checked.
    """
    from skills_agent.skills.format.lint import lint as lint_folder

    if not folder.exists():
        folder = _folder_of(str(folder), registry_of(Settings.load(workspace), skills_dirs))
    report = lint_folder(folder, spec=spec)
    errors, warnings = report.count("error"), report.count("warning")
    if as_json:
        counts = {"errors": errors, "warnings": warnings}
        print_json({"skills": report.skills, **counts, "findings": report.findings})
    else:
        for diagnostic in report.findings:
            click.echo(diagnostic_line(diagnostic))
        click.echo(
            f"{count(len(report.skills), 'skill')}, {count(errors, 'error')}, {count(warnings, 'warning')}"
        )
    if errors:
        raise click.exceptions.Exit(1)


def _folder_of(name: str, registry: Registry) -> Path:
    """Return the folder of the skill of a name, also of one that cannot be used. Raises UsageError."""
    catalog = registry.refresh()
    skill = {entry.name: entry for entry in catalog.entries}.get(name) or catalog.find(name)
    source = registry.source_of(skill.source, skill.path)
    folder = source.root(skill.path) if source else None
    if folder is None:
        raise click.UsageError(
            f"{line_of(name)} lies in no folder here: its source is {line_of(skill.source)}"
        )
    return folder
