"""Where people keep secrets: closed to file tools and scripts in a workspace so wide that it holds them.

That is `/`, a home folder, or a folder above one. docs/security.md has the list as a table.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Final

from skills_agent.skills import posix
from skills_agent.skills.confined import is_in, outermost

KEEPERS: Final[Mapping[str, tuple[str, ...]]] = {
    "keys and logins": (
        ".ssh", ".gnupg", ".pki", ".netrc", ".authinfo", ".authinfo.gpg", ".git-credentials", ".pgpass",
        ".my.cnf", ".vault-token", ".password-store", ".1password", ".Xauthority", ".ICEauthority",
        ".local/share", "Library",
    ),
    "clouds and registries": (
        ".aws", ".azure", ".config", ".docker", ".kube", ".oci", ".boto", ".s3cfg", ".terraform.d",
        ".terraformrc", ".databricks", ".databrickscfg", ".snowflake", ".snowsql", ".rclone.conf", ".npmrc",
        ".yarnrc.yml", ".pypirc", ".gem", ".cargo/credentials", ".cargo/credentials.toml", ".m2", ".gradle",
    ),
    "browsers, mail and messages": (
        ".mozilla", ".thunderbird", ".var", "snap", ".cache", ".msmtprc", ".mbsyncrc", ".fetchmailrc",
        ".mutt", ".muttrc", ".purple", ".weechat", ".irssi",
    ),
    "histories": (
        ".bash_history", ".zsh_history", ".zhistory", ".histfile", ".sh_history", ".history",
        ".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history",
        ".rediscli_history", ".lesshst", ".viminfo",
    ),
    "coding agents": (
        ".claude", ".claude.json", ".codex", ".gemini", ".cursor", ".continue", ".aider.chat.history.md",
    ),
    "this agent": (".local/state",),
}  # fmt: skip
"""By what keeps them: places in a home folder."""
OF_THE_SYSTEM: Final = (
    *("/proc", "/sys", "/dev", "/run", "/boot"),
    *("/var/run", "/var/log", "/var/mail", "/var/spool", "/var/lib"),
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/ssl/private"),
    *("/etc/sudoers", "/etc/sudoers.d"),
)
"""Where the workspace is `/`."""


def is_wide(workspace: Path, home: Path) -> bool:
    """Return whether a workspace is `/`, a home folder of this user, or a folder above one."""
    root = os.path.realpath(workspace)
    return root == "/" or any(is_in(each, root) for each in _homes_of_user(home))


def secret_places(workspace: Path, home: Path, more: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return what is closed in a workspace, links resolved: of a wide one all secrets, and always `more`."""
    root = os.path.realpath(workspace)
    places = [str(each) for each in more]
    if is_wide(workspace, home):
        homes = [*_homes_of_user(home), *_homes_of_others(root)]
        places += [f"{each}/{name}" for each in homes for names in KEEPERS.values() for name in names]
    if root == "/":
        places += OF_THE_SYSTEM
    real = {os.path.realpath(place) for place in places}
    inside = (place for place in real if place != root and is_in(place, root))
    return tuple(map(Path, outermost(inside)))


def obeyed_in_homes(workspace: Path, home: Path) -> tuple[str, ...]:
    """Return protected entries for a workspace so wide: what is hidden in a home folder, and its `bin`.

    There, every program has its settings; no list would be complete.
    """
    root = os.path.realpath(workspace)
    if not is_wide(workspace, home):
        return ()
    homes = {each for each in (*_homes_of_user(home), *_homes_of_others(root)) if is_in(each, root)}
    tops = ["" if each == root else f"/{escape(os.path.relpath(each, root))}" for each in sorted(homes)]
    return tuple(f"{top}/{name}" for top in tops for name in (".*", "bin"))


def _homes_of_user(home: Path) -> set[str]:
    entries = list[posix.pwd.struct_passwd]()
    with suppress(KeyError):
        entries.append(posix.pwd.getpwuid(os.geteuid()))
    return {os.path.realpath(home), *_homes(entries)} - {"/"}


def _homes_of_others(root: str) -> set[str]:
    homes = {home for home in _homes(posix.pwd.getpwall()) if is_in(home, root)}
    return {home for home in homes if os.path.isdir(f"{home}/.")}  # noqa: PTH112 - `is_dir` raises


def _homes(entries: Iterable["posix.pwd.struct_passwd"]) -> set[str]:
    """Return the folders of these users; a line of NIS (`+`, `-@group`) names none."""
    homes = (entry.pw_dir or "" for entry in entries)
    return {os.path.realpath(home) for home in homes if home.startswith("/")} - {"/"}
