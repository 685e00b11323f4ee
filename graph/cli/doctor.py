"""skills-agent doctor: is a skill used, what works on this machine, what is kept. Imports no LangGraph."""

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skills_agent.graph.audit.redaction import Redaction
from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import confirm, echo, line_of, print_json, print_section, value_text
from skills_agent.graph.cli.working import loading
from skills_agent.graph.hooks import first, needed
from skills_agent.graph.settings import Settings, registry_of, shown_settings
from skills_agent.graph.user_folders import process_environment, state_folder, trust_file_of
from skills_agent.skills.errors import SkillError, SkillsAgentError
from skills_agent.skills.library.catalog import Catalog, CatalogEntry, in_place_text
from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.machine import KeptFolder
from skills_agent.skills.skill import Diagnostic, SkillMetadata
from skills_agent.skills.text import count

if TYPE_CHECKING:  # `skills list` imports this module, and has to be quick
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


@click.command(
    epilog="Exit codes with --install: 0 installed, 1 nothing was, 3 nobody is there to approve the list.\n\n"
    + options.examples("doctor", "doctor csv-report", "doctor pdf --install", "doctor --remove unused")
)
@click.argument("skill", required=False)
@click.option("--install", is_flag=True, help="Install the Python and Node packages that SKILL needs.")
@click.option(
    "--with",
    "more",
    metavar="PACKAGE",
    multiple=True,
    help="Install this package for it, too, e.g. pandas>=2 or npm:sharp@^0.33. Repeatable.",
)
@click.option(
    "--remove", metavar="NAME", help="Remove what is kept by this name (`*` is a part), or what is unused."
)
@click.option("--all", "everything", is_flag=True, help="Show all settings, sources and kept things.")
@options.unasked
@options.folders
@options.as_json
def doctor(
    *,
    skill: str | None,
    remove: str | None,
    everything: bool,
    yes: bool,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
    **chosen: Any,
) -> None:
    """Show what is wrong here, then what differs from the defaults, and what is kept.

    With SKILL (or SKILL@SOURCE): what it needs of this machine, and what of that is missing. --install
    resolves its packages to versions and hashes, shows them, and installs them if you approve: outside of the
    agent's own environment, for scripts of skills with exactly these needs.
    """
    settings = Settings.load(workspace)
    if skill:
        check_skill = needed("needs", "What a skill needs").check_skill
        check_skill(settings, registry_of(settings, skills_dirs), skill, yes=yes, as_json=as_json, **chosen)
    elif any(chosen.values()):
        raise click.UsageError("say for which SKILL: --install and --with are for one")
    elif remove:
        removed = _remove_kept(settings, remove, yes=yes)
        print_json({"removed": removed}) if as_json else echo(f"Removed {count(len(removed), 'thing')}.")
    else:
        with loading():
            found = _look(settings, registry_of(settings, skills_dirs))
        print_json(found) if as_json else _print(found, everything=everything)


def _look(settings: Settings, registry: "Registry") -> dict[str, Any]:
    """Return what the doctor finds, by the names that a machine is told."""
    from skills_agent.graph.machine import sandbox_here, why_no_shell_here
    from skills_agent.skills.library.admission import requirement_findings
    from skills_agent.skills.library.checkup import repaired, source_states

    places = (process_environment().get("PATH"), settings.workspace, state_folder(settings))
    servers = first("servers").states_now(settings) if settings.mcp_servers else []
    catalog, no_shell = registry.refresh(), why_no_shell_here(settings)
    paths = {entry.path for entry in catalog.entries}
    unreachable = {server.name: server.reason for server in servers if server.fault}
    return {
        "sources": [source._asdict() for source in source_states(registry)],
        "shadowed": [entry for entry in catalog.entries if entry.status == "shadowed"],
        "skipped": [entry for entry in catalog.entries if entry.status == "skipped"],
        "repaired": repaired(catalog.entries),
        "requirements": [*requirement_findings(catalog)],
        "diagnostics": [found for found in catalog.diagnostics if found.path not in paths],
        "mcp_servers": [{**server._asdict(), "reason": server.reason} for server in servers],
        "untrusted": [*untrusted_in_place(settings, catalog).values()],
        "signed": {skill.name: who for skill in catalog.skills if (who := signer_of(settings, skill))},
        "missing": needs.lacking(settings, catalog, unreachable) if (needs := first("needs")) else {},
        "isolation": sandbox_here().isolation(settings.sandbox, *places)._asdict(),
        "shell": {"offered": not no_shell, "reason": no_shell},
        "open_threads": _open_threads(settings),
        "state_folder": str(state_folder(settings)),
        "kept": _list_kept(settings),
        "settings": shown_settings(settings, Redaction().value),
    }


def _print(found: Mapping[str, Any], *, everything: bool) -> None:
    from skills_agent.skills.scripts.runner import CONFINED

    problems, state, isolation = _problems(found), _state(found, everything), found["isolation"]
    place = state if isolation["level"] in CONFINED else problems
    place[f"Scripts {_ISOLATION[isolation['level']]}"] = [line_of(isolation["reason"])]
    click.echo("Wrong, or waiting for you:" if any(problems.values()) else "Nothing is wrong here.")
    for title, lines in (problems | state).items():
        print_section(title, lines)


def _problems(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what a person would want to know first, line by line, under its titles."""
    repaired = (diagnostic for entry in found["repaired"] for diagnostic in entry.diagnostics)
    return {
        "Skills that are skipped": [*map(_entry_text, found["skipped"])],
        "Untrusted, in place of others": [*map(line_of, found["untrusted"])],
        "Skills that need what is not here": [
            line_of(f"{name}: {text}") for name, text in found["missing"].items()
        ],
        "Used, though not as written": [*map(diagnostic_line, repaired)],
        "Requirements, and what was passed over": [
            *map(diagnostic_line, (*found["requirements"], *found["diagnostics"]))
        ],
        "MCP servers that do not offer all": _server_texts(found, are_faulty=True),
        "Threads that wait or were cut off": [
            line_of(f"{name} ({status}): skills-agent resume {name}")
            for name, status in found["open_threads"].items()
        ],
    }


def _state(found: Mapping[str, Any], everything: bool) -> dict[str, list[str]]:
    """Return what is here, line by line, under its titles; the usual only where everything is wanted."""
    shell, kept, bytes_kept = found["shell"], found["kept"], sum(each["bytes"] for each in found["kept"])
    unused = sum(not each["used"] for each in kept)
    return {
        f"Settings{'' if everything else ' that are not the defaults'}": [
            f"{name} = {value_text(each['value'])} ({each['from']})"
            for name, each in found["settings"].items()
            if everything or each["from"] != "default"
        ],
        "Sources of skills, the strongest last": [
            _source_text(source) for source in found["sources"] if everything or source["exists"]
        ]
        or ["none: skills are turned off (enable_skills)"],
        "Hidden by one of the same name": [*map(_entry_text, found["shadowed"])],
        "Trusted by who signed them": [line_of(f"{name}: {who}") for name, who in found["signed"].items()],
        "MCP servers": _server_texts(found, are_faulty=False),
        f"The shell (run_command) is {'offered' if shell['offered'] else 'not offered'}": [
            line_of(shell["reason"]) or "it runs like scripts"
        ],
        "Threads and grants are kept in": [line_of(found["state_folder"])],
        "Kept, with the bytes that it takes": [
            line_of(f"{each['name']}  {each['bytes']:,}  {each['note']}") for each in kept
        ]
        if everything
        else [f"{count(len(kept), 'thing')}, {bytes_kept:,} bytes; {unused} unused (--all, --remove unused)"],
    }


def _open_threads(settings: Settings) -> dict[str, str]:
    """Return the status of every thread that is not done; none where no thread is kept."""
    if not settings.database and not (state_folder(settings) / "threads.sqlite").exists():
        return {}
    from skills_agent.graph.threads.threads import Threads

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

    Raises UsageError for a name that nothing has, ClickException where nobody says yes, OSError.
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
        each.remove()
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


def _source_text(source: Mapping[str, Any]) -> str:
    counts = [f"{source[status]} {status}" for status in ("shown", "shadowed", "skipped") if source[status]]
    content = (", ".join(counts) or "no skills") if source["exists"] else "no such folder"
    trust = "" if source["trusted"] else ", not trusted"
    return line_of(f"{source['label']}{trust}: {content}  {source['folder'] or ''}")


def _entry_text(entry: CatalogEntry) -> str:
    return f"{line_of(entry.name)} ({entry.status}) {line_of(entry.path)}\n    {line_of(entry.reason)}"


def _server_texts(found: Mapping[str, Any], *, are_faulty: bool) -> list[str]:
    servers = found["mcp_servers"]
    return [_server_text(each) for each in servers if bool(each["fault"] or each["faults"]) == are_faulty]


def _server_text(server: Mapping[str, Any]) -> str:
    state = server["reason"] or f"reachable, {count(server['tools'], 'tool')}"
    first_line = line_of(f"{server['name']} ({server['place']}): {state}")
    return "\n    ".join([first_line, *(line_of(f"not offered: {fault}") for fault in server["faults"])])
