"""skills-agent doctor SKILL: what a skill needs, what of it is here, and what brings the rest."""

from collections.abc import Sequence

import click
from msgspec import structs

from skills_agent.graph.cli.printing import echo, is_terminal, line_of, print_json, print_section, table
from skills_agent.graph.cli.working import working
from skills_agent.graph.private_files import make_private_folder
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import user_state_folder
from skills_agent.needs.environments import Environments, requirement_of
from skills_agent.needs.installation import prepare
from skills_agent.needs.machine import ThisMachine, machine_here
from skills_agent.needs.machine_state import NOUNS
from skills_agent.needs.node_files import node_package
from skills_agent.needs.packages import PackageKind
from skills_agent.needs.python_files import requirement
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import Need, SkillMetadata
from skills_agent.skills.text import count

WAITS_FOR_APPROVAL = 3


def check_skill(
    settings: Settings,
    registry: Registry,
    name: str,
    *,
    install: bool,
    more: Sequence[str],
    yes: bool,
    as_json: bool,
) -> None:
    """Show what a skill needs of this machine, and what is missing; or install its packages.

    They are resolved to versions and hashes, shown, and installed if a person approves: outside of the
    agent's own environment, for scripts of skills with exactly these needs.
    """
    metadata = registry.refresh().find(name)
    needed, machine = registry.needs(metadata.ref), machine_here(settings)
    if install or more:
        make_private_folder(user_state_folder(settings))
        _install(metadata, needed, machine.environments, more, yes=yes)
    else:
        _show(metadata, needed, machine, as_json=as_json)


def _show(skill: SkillMetadata, needed: Sequence[Need], machine: ThisMachine, *, as_json: bool) -> None:
    missing = machine.missing(needed, skill.ref, trusted=skill.trusted)
    remedies = machine.remedies(missing, skill.ref)
    absent = {each.need: each for each in missing}
    environment, node = (machine.environments.of(needed, kind) for kind in ("python", "node"))
    if as_json:
        rows = [{**structs.asdict(need), "is_missing": need in absent} for need in needed]
        places = [str(place) if place else None for place in (environment, node)]
        print_json(
            {"needs": rows, "remedies": remedies, "environment": places[0], "node_environment": places[1]}
        )
        return
    lines = []
    for need in needed:
        noun = NOUNS[need.kind][0] if need.kind in NOUNS else need.kind
        state = "-" if need.kind not in NOUNS else "here"
        if need in absent:
            state = f"not here ({absent[need].present})" if absent[need].present else "not here"
        lines.append((need.text, noun, state, need.said))
    table(lines, empty=f"{skill.name} says nothing of what it needs, and its files show nothing.")
    approved = [str(place) for place in (environment, node) if place]
    print_section("Its scripts run with the packages in", approved)
    print_section("What would help", remedies)


def _install(
    skill: SkillMetadata,
    needed: Sequence[Need],
    environments: Environments,
    more: Sequence[str],
    *,
    yes: bool,
) -> None:
    with working(f"Resolving the packages of {line_of(skill.name)}"):
        prepared = prepare(environments, needed, more=_added(skill, needed, more))
    if not more and prepared.guesses:
        echo("Left out, for nobody says which package brings it; a package of that name may be anybody's:")
        table([(f"  import {guess.module}", guess.said) for guess in prepared.guesses])
        prefix = "npm:" if all(guess.kind == "node" for guess in prepared.guesses) else ""
        echo(f"If you know the package, add it: --with {prefix}PACKAGE\n")
    for note in prepared.notes:
        echo(note)
    if not prepared.lists:
        echo(f"{skill.name} names no package of Python or Node.")
        return
    echo(f"Asked for: {', '.join(prepared.requirements)}\n")
    table([(f"  {each.name}", each.version, each.digest, each.note) for each in prepared.packages])
    if not yes:
        if not is_terminal():
            command = f"doctor {skill.name} --install --yes"
            echo(f"\nNothing was installed: nobody is there to approve the list ({command}).")
            raise click.exceptions.Exit(WAITS_FOR_APPROVAL)
        if not click.confirm(f"\nInstall these for scripts of {skill.name}?"):
            raise click.ClickException("Nothing was installed.")
    number = count(len(prepared.packages), "package")
    with working(f"Installing {number}"):
        places = prepared.carry_out(environments, needed, skill.ref)
    where = ", ".join(map(str, places))
    echo(f"\nInstalled {number}. Scripts of {skill.name} run with them from now on: {where}")


def _added(skill: SkillMetadata, needed: Sequence[Need], more: Sequence[str]) -> dict[PackageKind, list[str]]:
    """Return the requirements that a person adds, by kind.

    An approval holds for needs of a kind. Without one, it would be for all skills that have none.
    """
    added: dict[PackageKind, list[str]] = {}
    for text in more:
        is_node = text.startswith("npm:")
        kind: PackageKind = "node" if is_node else "python"
        need = node_package(text.removeprefix("npm:"), "--with") if is_node else requirement(text, "--with")
        if need is None:
            raise click.UsageError(f"{text!r} names no package: write a name, or a name with versions.")
        if not any(each.kind == kind for each in needed):
            noun = "Node" if is_node else "Python"
            raise click.UsageError(f"no file of {skill.name} shows that it needs a package of {noun}.")
        added.setdefault(kind, []).append(requirement_of(need))
    return added
