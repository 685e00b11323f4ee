"""skills-agent skills needs: what a skill needs, what of it is here, and what brings the rest."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from msgspec import structs

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, is_terminal, print_json, print_section, table
from skills_agent.graph.settings import Settings, registry_of, user_state_folder
from skills_agent.skills.text import count

if TYPE_CHECKING:  # `skills list` imports this module, and has to be quick
    from skills_agent.skills.needs.environments import Environments, Resolved
    from skills_agent.skills.needs.here import Machine
    from skills_agent.skills.skill import Need, SkillMetadata

WAITS_FOR_APPROVAL = 3
_SHOWN_OF_HASH = len("sha256:") + 12


@click.command(
    epilog="Exit codes: 0 done, 1 nothing was installed, 3 nobody is there to approve the list.\n\n"
    + options.examples(
        "skills needs csv-report", "skills needs pdf --install", "skills needs pdf --install --yes"
    )
)
@click.argument("name")
@click.option(
    "--install", is_flag=True, help="Install its Python packages, into an environment of their own."
)
@click.option(
    "--with",
    "more",
    metavar="PACKAGE",
    multiple=True,
    help="With --install: this package, too, e.g. pandas>=2. Repeatable.",
)
@click.option("--yes", is_flag=True, help="With --install: approve the list of packages unseen.")
@click.option(
    "--allow-builds",
    is_flag=True,
    help="With --install: also packages without a wheel. Building runs their code.",
)
@options.folders
@options.as_json
def needs(
    name: str,
    *,
    install: bool,
    more: tuple[str, ...],
    yes: bool,
    allow_builds: bool,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show what skill NAME (or NAME@SOURCE) needs of this machine, and what is missing.

    With --install, its Python packages are resolved to versions and hashes, shown, and installed if you
    approve: outside of the agent's own environment, for the scripts of skills with exactly these needs.
    """
    from skills_agent.graph.machine import machine_of

    settings = Settings.load(workspace)
    registry = registry_of(settings, skills_dirs)
    metadata = registry.refresh().find(name)
    needed, machine = registry.needs(metadata.ref), machine_of(settings)
    if install and machine.environments:
        _make_state_folder(settings)
        _install(metadata, needed, machine.environments, more, yes=yes, builds=allow_builds)
        return
    if more or yes or allow_builds:
        raise click.UsageError("--with, --yes and --allow-builds are for --install.")
    _show(metadata, needed, machine, as_json=as_json)


def _show(skill: "SkillMetadata", needed: "Sequence[Need]", machine: "Machine", *, as_json: bool) -> None:
    from skills_agent.skills.needs.here import NOUNS

    missing = machine.missing(needed, skill.ref, trusted=skill.trusted)
    remedies = machine.remedies(missing, skill.ref)
    absent = {each.need: each for each in missing}
    environment = machine.environment_of(needed)
    if as_json:
        rows = [{**structs.asdict(need), "is_missing": need in absent} for need in needed]
        place = str(environment) if environment else None
        print_json({"needs": rows, "remedies": remedies, "environment": place})
        return
    lines = []
    for need in needed:
        noun = NOUNS[need.kind][0] if need.kind in NOUNS else need.kind
        state = "-" if need.kind not in NOUNS else "here"
        if need in absent:
            state = f"not here ({absent[need].present})" if absent[need].present else "not here"
        lines.append((f"{need.name}{need.specifier}", noun, state, need.said))
    table(lines, empty=f"{skill.name} says nothing of what it needs, and its files show nothing.")
    print_section("Its scripts run with the packages in", [str(environment)] if environment else [])
    print_section("What would help", remedies)


def _install(
    skill: "SkillMetadata",
    needed: "Sequence[Need]",
    environments: "Environments",
    more: Sequence[str],
    *,
    yes: bool,
    builds: bool,
) -> None:
    from skills_agent.skills.needs.environments import wanted

    requirements, guesses = wanted(needed, map(_requirement, more))
    if not more and guesses:
        echo("Left out, for nobody says which package brings it; a package of that name may be anybody's:")
        table([(f"  import {each.module}", each.said) for each in guesses])
        echo("If you know the package, add it: --with PACKAGE\n")
    if not requirements:
        echo(f"{skill.name} names no Python package.")
        return
    resolved = environments.resolve(requirements, builds=builds)
    _print_list(requirements, resolved)
    if builds:
        echo("Packages without a wheel are built: that runs their code now, with all rights of this user.")
    if not yes:
        if not is_terminal():
            _refuse(skill.name)
        if not click.confirm(f"\nInstall these for scripts of {skill.name}?"):
            raise click.ClickException("Nothing was installed.")
    place = environments.install(resolved, builds=builds)
    environments.approve(needed, resolved)
    number = count(len(resolved.packages), "package")
    echo(f"\nInstalled {number}. Scripts of {skill.name} run with them from now on: {place}")


def _requirement(text: str) -> str:
    from skills_agent.skills.needs.environments import requirement_text
    from skills_agent.skills.needs.python_files import requirement

    need = requirement(text, "--with")
    if need is None:
        raise click.UsageError(f"{text!r} names no package: write a name, or a name with versions.")
    return requirement_text(need)


def _print_list(requirements: Sequence[str], resolved: "Resolved") -> None:
    echo(f"Asked for: {', '.join(requirements)}\n")
    rows = []
    for name, version, hashes in resolved.packages:
        others = f" or {len(hashes) - 1} more" if len(hashes) > 1 else ""
        rows.append((f"  {name}", version, f"{hashes[0][:_SHOWN_OF_HASH]}{others}"))
    table(rows)


def _refuse(name: str) -> NoReturn:
    echo(
        f"\nNothing was installed: nobody is there to approve the list (skills needs {name} --install --yes)."
    )
    raise click.exceptions.Exit(WAITS_FOR_APPROVAL)


def _make_state_folder(settings: Settings) -> None:
    from skills_agent.graph.private_files import make_private_folder

    make_private_folder(user_state_folder(settings))
