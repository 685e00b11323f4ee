"""skills-agent doctor: is a skill used, what works on this machine, what is kept. Imports no LangGraph."""

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skills_agent.graph.audit.redaction import Redaction
from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import (
    confirm,
    echo,
    line_of,
    print_json,
    print_section,
    table,
    value_text,
)
from skills_agent.graph.settings import Settings, SettingsError, registry_of, shown_settings
from skills_agent.graph.user_folders import process_environment, state_folder, trust_file_of
from skills_agent.skills.library.catalog import Catalog, in_place_text
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.machine import KeptFolder
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.text import count

if TYPE_CHECKING:  # `skills list` imports this module, and has to be quick
    from skills_agent.graph.tool_servers import ServerState
    from skills_agent.skills.library.registry import Registry

_ISOLATION: Final = {
    None: "are refused: a sandbox is required",
    "controlled": "run WITHOUT a sandbox, with all rights of this user",
    "bwrap": "run in a sandbox (bubblewrap)",
    "landlock": "run in a sandbox (Landlock)",
    "seatbelt": "run in a sandbox (Seatbelt)",
}

UNUSED: Final = "unused"
_SHOWN: Final = 12
"""Digits of a digest."""
_JUST_NOW: Final = 3600
"""Seconds: a thread may have loaded a snapshot that is younger, and not have been stored yet."""


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
        removed = _remove_kept(settings, remove, yes=yes)
        print_json({"removed": removed}) if as_json else echo(f"Removed {count(len(removed), 'thing')}.")
    else:
        _check(settings, skills_dirs, as_json=as_json)


def _check(settings: Settings, skills_dirs: tuple[Path, ...], *, as_json: bool) -> None:
    found = _look(settings, registry_of(settings, skills_dirs))
    if as_json:
        servers = [server._asdict() for server in found["mcp_servers"]]
        print_json({**found, "mcp_servers": servers, "untrusted": [*found["untrusted"].values()]})
    else:
        _print(found)


def _look(settings: Settings, registry: "Registry") -> dict[str, Any]:
    """Return what the doctor finds, by the names that a machine is told."""
    from skills_agent.graph.machine import sandbox_here, why_no_shell_here
    from skills_agent.skills.library.checkup import check_up

    places = (process_environment().get("PATH"), settings.workspace, state_folder(settings))
    servers = _server_states(settings)
    catalog, checkup, no_shell = registry.refresh(), check_up(registry), why_no_shell_here(settings)
    unreachable = {server.name: server.reason for server in servers if server.fault}
    return {
        **checkup._asdict(),
        "mcp_servers": servers,
        "untrusted": untrusted_in_place(settings, catalog),
        "signed": {skill.name: who for skill in catalog.skills if (who := signer_of(settings, skill))},
        "sources": [source._asdict() for source in checkup.sources],
        "missing": _lacking(settings, catalog, unreachable),
        "isolation": sandbox_here().isolation(settings.sandbox, *places)._asdict(),
        "shell": {"offered": not no_shell, "reason": no_shell},
        "open_threads": _open_threads(settings),
        "state_folder": str(state_folder(settings)),
        "kept": _list_kept(settings),
        "settings": shown_settings(settings, Redaction().value),
    }


def _print(found: Mapping[str, Any]) -> None:
    isolation, shell = found["isolation"], found["shell"]
    click.echo("Sources, the strongest last")
    table([*map(_source_row, found["sources"])], empty="  none: skills are turned off (enable_skills)")
    sections: dict[str, Iterable[str]] = {
        "Untrusted, in place of others": map(line_of, found["untrusted"].values()),
        "Trusted by who signed them": (line_of(f"{name}: {who}") for name, who in found["signed"].items()),
        "Skills that are not used": (
            f"{line_of(each.name)} ({each.status}) {line_of(each.path)}\n    {line_of(each.reason)}"
            for each in (*found["shadowed"], *found["skipped"])
            if each.name not in found["untrusted"] or each.status == "skipped"
        ),
        "Used, though not as written": (
            diagnostic_line(diagnostic) for entry in found["repaired"] for diagnostic in entry.diagnostics
        ),
        "Requirements, and what was passed over": map(
            diagnostic_line, (*found["requirements"], *found["diagnostics"])
        ),
        "MCP servers": map(_server_text, found["mcp_servers"]),
        "Skills that need what is not here": (f"{name}: {text}" for name, text in found["missing"].items()),
        f"Scripts {_ISOLATION[isolation['level']]}": [line_of(isolation["reason"])],
        f"The shell (run_command) is {'offered' if shell['offered'] else 'not offered'}": [
            line_of(shell["reason"]) or "it runs like scripts"
        ],
        "Threads and grants are kept in": [line_of(found["state_folder"])],
        "Threads that wait or were cut off": (
            line_of(f"{name} ({status}): skills-agent resume {name}")
            for name, status in found["open_threads"].items()
        ),
    }
    for title, lines in sections.items():
        print_section(title, lines)
    click.echo("\nKept, with the bytes that it takes")
    kept = [(f"  {each['name']}", f"{each['bytes']:,}", each["note"]) for each in found["kept"]]
    table(kept, empty="  nothing")
    click.echo("\nSettings: name, value, where from")
    table(
        [(f"  {name}", value_text(each["value"]), each["from"]) for name, each in found["settings"].items()]
    )


def _lacking(settings: Settings, catalog: Catalog, unreachable: dict[str, str]) -> dict[str, str]:
    """Say of each skill, by name, what it needs and is not here, and what would help.

    Of skills in folders, as they are now.
    """
    from skills_agent.graph.machine import gather_now, machine_of

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


def _list_kept(settings: Settings) -> list[dict[str, Any]]:
    """Return what is kept: its `name` and `bytes`, whether it is `used`, a `note`, and its `folder`."""
    from skills_agent.skills.scripts.run_folders import weigh

    return [
        {
            "name": each.name,
            "bytes": weigh(each.folder).bytes,
            "used": each.is_used,
            "note": ", ".join(filter(None, ["" if each.is_used else UNUSED, each.note])),
            "folder": str(each.folder),
        }
        for each in _kept(settings)
    ]


def _remove_kept(settings: Settings, wanted: str, *, yes: bool) -> list[str]:
    """Remove what a pattern of names, or "unused", says, and return the names.

    Raises UsageError for a name that nothing has, ClickException where nobody says yes.
    """
    chosen = [
        each
        for each in _kept(settings)
        if (not each.is_used if wanted == UNUSED else fnmatchcase(each.name, wanted))
    ]
    names = [each.name for each in chosen]
    if wanted != UNUSED and not chosen:
        raise click.UsageError(f"nothing that is kept is named {wanted!r}.")
    if chosen:
        confirm(f"Remove {count(len(chosen), 'thing')} ({', '.join(names)})?", yes=yes)
    for each in chosen:
        try:
            each.remove()
        except OSError as error:
            raise click.ClickException(f"Cannot remove {each.folder}: {error.strerror}.") from error
    return names


def _kept(settings: Settings) -> list[KeptFolder]:
    from skills_agent.graph.kept_folders import homes_of
    from skills_agent.graph.machine import machine_of
    from skills_agent.graph.settings import open_snapshots
    from skills_agent.graph.threads.references import is_needed

    kept = [*machine_of(settings).kept(), *homes_of(settings)]
    store = open_snapshots(settings)
    for snapshot in store.cached():
        digest, remove = snapshot.digest, partial(store.remove, snapshot.digest)
        is_used = snapshot.age < _JUST_NOW or any(
            is_needed(digest, address) for address in snapshot.addresses
        )
        name, folder = f"snapshot/{digest[:_SHOWN]}", store.folder / digest
        kept.append(KeptFolder(name, folder, snapshot.skill, is_used, remove))
    return sorted(kept, key=lambda each: each.name)


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
        trusted = {vouched.path for vouched in trust.paths() if trust.is_unchanged(vouched)}
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
    from skills_agent.graph.vouchers import signer, vouchers_of
    from skills_agent.skills.errors import SkillError
    from skills_agent.skills.library.contents import measure

    folder, vouchers = Path(skill.path).parent, vouchers_of(settings)
    if not any(voucher.may_have(folder) for voucher in vouchers):
        return ""
    try:
        return signer(vouchers, folder, skill.name, measure(folder, None, ContentLimits()).digest)
    except (SkillError, OSError):  # the agent says so where it counts
        return ""


def diagnostic_line(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as one line: severity, place, what is wrong, what to do, code."""
    place = f"{diagnostic.path}:{diagnostic.line}" if diagnostic.line else diagnostic.path
    return line_of(
        f"{diagnostic.severity}: {place}: {diagnostic.message} {diagnostic.advice} ({diagnostic.code})"
    )


def _source_row(source: Mapping[str, Any]) -> tuple[str, ...]:
    counts = [f"{source[status]} {status}" for status in ("shown", "shadowed", "skipped") if source[status]]
    content = (", ".join(counts) or "no skills") if source["exists"] else "no such folder"
    trust = "trusted" if source["trusted"] else "not trusted"
    return f"  {source['label']}", trust, content, source["folder"] or ""


def _server_text(server: "ServerState") -> str:
    state = server.reason or f"reachable, {count(server.tools, 'tool')}"
    first = line_of(f"{server.name} ({server.place}): {state}")
    return "\n    ".join([first, *(line_of(f"not offered: {fault}") for fault in server.faults)])
