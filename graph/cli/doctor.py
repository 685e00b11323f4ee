"""skills-agent doctor: is a skill used, what works on this machine, what is kept. Imports no LangGraph."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from skills_agent.graph.audit.redaction import Redaction
from skills_agent.graph.cli import options
from skills_agent.graph.cli.kept import list_kept, remove_kept
from skills_agent.graph.cli.printing import echo, line_of, print_json, print_section, table, value_text
from skills_agent.graph.places import process_environment, state_folder, trust_file_of
from skills_agent.graph.settings import Settings, SettingsError, ShownSetting, registry_of, shown_settings
from skills_agent.skills.library.catalog import Catalog, in_place_text
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.text import count

if TYPE_CHECKING:  # `skills list` imports this module, and has to be quick
    from skills_agent.graph.tool_servers import ServerState
    from skills_agent.skills.library.checkup import Checkup, SourceState
    from skills_agent.skills.library.registry import Registry
    from skills_agent.skills.scripts.choice import Isolation
    from skills_agent.skills.scripts.programs import Program

_ISOLATION: Final = {
    None: "are refused: a sandbox is required",
    "controlled": "run WITHOUT a sandbox, with all rights of this user",
    "bwrap": "run in a sandbox (bubblewrap)",
}


@click.command(epilog=options.examples("doctor", "doctor --remove unused", "doctor --remove 'home/notes@*'"))
@click.option(
    "--remove", metavar="NAME", help="Remove what is kept by this name (`*` is a part), or what is unused."
)
@options.unasked
@options.folders
@options.as_json
def doctor(
    *,
    remove: str | None,
    yes: bool,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show where skills are from and which are not used, what works here, all settings, and what is kept."""
    settings = Settings.load(workspace)
    if remove:
        removed = remove_kept(settings, remove, yes=yes)
        print_json({"removed": removed}) if as_json else echo(f"Removed {count(len(removed), 'thing')}.")
    else:
        _check(settings, skills_dirs, as_json=as_json)


class _Health(NamedTuple):
    """What the doctor found."""

    checkup: "Checkup"
    programs: "Sequence[Program]"
    isolation: "Isolation"
    no_shell: str
    in_place: dict[str, str]
    signed: dict[str, str]
    servers: "list[ServerState]"
    lacking: dict[str, str]
    settings: Sequence[ShownSetting]
    open_threads: dict[str, str]
    kept: Sequence[Mapping[str, Any]]
    folder: str
    """Of the threads and grants."""


def _check(settings: Settings, skills_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    found = _look(settings, registry_of(settings, skills_dirs))
    print_json(_as_json(found)) if as_json else _print(found)


def _look(settings: Settings, registry: "Registry") -> _Health:
    from skills_agent.graph.machine import sandbox_here, why_no_shell_here
    from skills_agent.skills.library.checkup import check_up
    from skills_agent.skills.scripts.programs import wanted_programs

    path, servers = process_environment().get("PATH"), _server_states(settings)
    catalog = registry.refresh()
    return _Health(
        checkup=check_up(registry),
        programs=wanted_programs(path, settings.workspace),
        isolation=sandbox_here().isolation(settings.sandbox, path, settings.workspace),
        no_shell=why_no_shell_here(settings),
        in_place=untrusted_in_place(settings, catalog),
        signed={each.name: who for each in catalog.skills if (who := signer_of(settings, each))},
        servers=servers,
        lacking=_lacking(settings, catalog, {state.name: state.reason for state in servers if state.fault}),
        settings=shown_settings(settings, Redaction().value),
        open_threads=_open_threads(settings),
        kept=list_kept(settings),
        folder=str(state_folder(settings)),
    )


def _as_json(found: _Health) -> dict[str, Any]:
    return {
        **found.checkup._asdict(),
        "mcp_servers": [server._asdict() for server in found.servers],
        "untrusted": list(found.in_place.values()),
        "signed": found.signed,
        "sources": [source._asdict() for source in found.checkup.sources],
        "programs": [program._asdict() for program in found.programs],
        "missing": found.lacking,
        "isolation": found.isolation._asdict(),
        "shell": {"offered": not found.no_shell, "reason": found.no_shell},
        "open_threads": found.open_threads,
        "state_folder": found.folder,
        "kept": found.kept,
        "settings": {each.name: {"value": each.value, "from": each.origin} for each in found.settings},
    }


def _print(found: _Health) -> None:
    checkup, isolation, no_shell = found.checkup, found.isolation, found.no_shell
    click.echo("Sources, the strongest last")
    table(list(map(_source_row, checkup.sources)), empty="  none: skills are turned off (enable_skills)")
    sections: dict[str, Iterable[str]] = {
        "Untrusted, in place of others": map(line_of, found.in_place.values()),
        "Trusted by who signed them": (line_of(f"{name}: {who}") for name, who in found.signed.items()),
        "Skills that are not used": (
            f"{line_of(each.name)} ({each.status}) {line_of(each.path)}\n    {line_of(each.reason)}"
            for each in (*checkup.shadowed, *checkup.skipped)
            if each.name not in found.in_place or each.status == "skipped"
        ),
        "Used, though not as written": (
            diagnostic_line(each) for entry in checkup.repaired for each in entry.diagnostics
        ),
        "Requirements, and what was passed over": map(
            diagnostic_line, (*checkup.requirements, *checkup.diagnostics)
        ),
        "MCP servers": map(_server_text, found.servers),
        "Programs that scripts want": map(_program_line, found.programs),
        "Skills that need what is not here": (f"{name}: {text}" for name, text in found.lacking.items()),
        f"Scripts {_ISOLATION[isolation.level]}": [line_of(isolation.reason)],
        f"The shell (run_command) is {'not offered' if no_shell else 'offered'}": [
            line_of(no_shell) or "it runs like scripts"
        ],
        "Threads and grants are kept in": [line_of(found.folder)],
        "Threads that wait or were cut off": (
            line_of(f"{name} ({status}): skills-agent resume {name}")
            for name, status in found.open_threads.items()
        ),
    }
    for title, lines in sections.items():
        print_section(title, lines)
    click.echo("\nKept, with the bytes that it takes")
    table(
        [(f"  {each['name']}", f"{each['bytes']:,}", each["note"]) for each in found.kept], empty="  nothing"
    )
    click.echo("\nSettings: name, value, where from")
    table([(f"  {each.name}", value_text(each.value), each.origin) for each in found.settings])


def _lacking(settings: Settings, catalog: Catalog, unreachable: dict[str, str]) -> dict[str, str]:
    """Say of each skill, by name, what it needs and is not here, and what would help.

    Of skills in folders, as they are now.
    """
    from skills_agent.graph.needs import gather_now, machine_of

    machine = machine_of(settings, lambda: unreachable)
    lacking = {}
    for skill in catalog.skills:
        path = Path(skill.path)
        needs = gather_now(path.parent, path.name) if path.is_absolute() else ()
        if missing := machine.missing(needs, skill.ref, trusted=skill.trusted):
            help_text = "; ".join(machine.remedies(missing, skill.ref))
            lacking[skill.name] = line_of(f"{machine.sentence(missing)}. What would help: {help_text}")
    return lacking


def _server_states(settings: Settings) -> "list[ServerState]":
    """Connect the MCP servers of the settings, and return how each stands."""
    if not settings.mcp_servers:
        return []
    from skills_agent.graph.tool_servers import ServerState, make_servers

    try:
        servers = make_servers(settings)
    except SettingsError as error:
        return [
            ServerState(name, server.url or server.command, 0, str(error))
            for name, server in settings.mcp_servers.items()
        ]
    if servers is None:
        return []
    servers.connect()
    # An address may hold a key.
    states = [state._replace(place=Redaction().text(state.place)) for state in servers.states()]
    servers.close()
    return states


def _server_text(server: "ServerState") -> str:
    state = server.reason or f"reachable, {count(server.tools, 'tool')}"
    first = line_of(f"{server.name} ({server.place}): {state}")
    return "\n    ".join([first, *(line_of(f"not offered: {fault}") for fault in server.faults)])


def _open_threads(settings: Settings) -> dict[str, str]:
    """Return the status of every thread that is not done; none where no thread is kept."""
    if not settings.database and not (state_folder(settings) / "threads.sqlite").exists():
        return {}
    from skills_agent.graph.threads.threads import Threads
    from skills_agent.skills.errors import SkillsAgentError

    try:
        with Threads.open(settings) as threads:
            return {each.thread: each.status for each in threads.list() if each.status != "done"}
    except SkillsAgentError as error:
        return {"": f"threads cannot be read: {error}"}


def untrusted_in_place(settings: Settings, catalog: Catalog) -> dict[str, str]:
    """Say of each skill, by name, that nobody vouches for and that hides others: whose place it takes."""
    untrusted = [skill for skill in catalog.skills if not skill.trusted]
    hiding = [(each, hidden) for each in untrusted if (hidden := catalog.hidden_by(each.name, each.source))]
    if not hiding:
        return {}
    # Most workspaces have none, and `skills list` has to be quick.
    from skills_agent.skills.policy.trust import TrustFileError, TrustList

    trust = TrustList(trust_file_of(settings))
    try:
        trusted = {each.path for each in trust.paths() if trust.is_unchanged(each)}
    except TrustFileError:  # then nothing is trusted by it
        trusted = set()
    return {
        skill.name: in_place_text(skill.name, skill.source, hidden)
        for skill, hidden in hiding
        if os.path.realpath(Path(skill.path).parent) not in trusted
    }


def signer_of(settings: Settings, skill: SkillMetadata) -> str:
    """Return who signed a skill as it is now, so that it is trusted; empty for nobody."""
    if skill.trusted:
        return ""
    from skills_agent.graph.vouchers import Vouchers
    from skills_agent.skills.errors import SkillError
    from skills_agent.skills.library.contents import measure

    folder, vouchers = Path(skill.path).parent, Vouchers(settings)
    if not vouchers.may_have(folder):
        return ""
    try:
        digest = measure(folder, None, ContentLimits()).digest
        return vouchers.vouch_for(folder, skill.name, digest)
    except (SkillError, OSError):  # the agent says so where it counts
        return ""


def diagnostic_line(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as one line: severity, place, what is wrong, what to do, code."""
    place = f"{diagnostic.path}:{diagnostic.line}" if diagnostic.line else diagnostic.path
    return line_of(
        f"{diagnostic.severity}: {place}: {diagnostic.message} {diagnostic.advice} ({diagnostic.code})"
    )


def _source_row(source: "SourceState") -> tuple[str, ...]:
    counts = ((source.shown, "shown"), (source.shadowed, "shadowed"), (source.skipped, "skipped"))
    content = ", ".join(f"{number} {status}" for number, status in counts if number) or "no skills"
    trust = "trusted" if source.trusted else "not trusted"
    return f"  {source.label}", trust, content if source.exists else "no such folder", source.folder or ""


def _program_line(program: "Program") -> str:
    if program.path:
        return f"{program.name}: {line_of(program.path)}"
    instead = f", nor is {' or '.join(program.substitutes)}" if program.substitutes else ""
    return line_of(
        f"{program.name} is not installed{instead}: {program.purpose} do not run here. {program.elsewhere}"
    )
