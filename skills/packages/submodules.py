"""Submodules of a repository, where a person asks for them: each at the commit that the repository has.

`git submodule` is never called, and nothing of `.gitmodules` but paths and URLs is read: no command to
update by, no branch, no name that becomes a folder. A URL was typed by nobody, so the rules for such places
hold. Submodules of submodules are not fetched.
"""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from skills_agent.skills.packages.address import parse_address
from skills_agent.skills.packages.credentials import without_secrets
from skills_agent.skills.packages.download import shown
from skills_agent.skills.packages.errors import AddressError, OfferError
from skills_agent.skills.packages.git_program import Git, GitFailedError, Remote
from skills_agent.skills.packages.offer import Wanted
from skills_agent.skills.packages.origins import check_host

MAX_SUBMODULES: Final = 16
"""Of one repository, that are fetched."""
_MAX_BYTES: Final = 1_000_000
_FIELD: Final = re.compile(r"submodule\.(?P<name>.+)\.(?P<field>path|url)", re.DOTALL)
_SCP: Final = re.compile(r"(?P<host>[\w.-]+@[\w.-]+):(?P<path>.+)")


class Submodule(NamedTuple):
    """A submodule that is to be fetched."""

    path: str
    """Where it stands in the repository."""
    commit: str
    remote: Remote


def submodules_of(
    git: Git, commit: str, links: Iterable[tuple[str, str]], wanted: Wanted
) -> tuple[Submodule, ...]:
    """Return what is to be fetched for links of a commit: paths, with the commits that they name.

    A path that `.gitmodules` does not have is left out. Raises OfferError for a place that it may not name.
    """
    links = list(links)
    urls = _urls(git, commit) if links else {}
    known = [(path, of_path) for path, of_path in links if path in urls]
    if len(known) > MAX_SUBMODULES:
        reason = f"it has {len(known)} submodules, more than {MAX_SUBMODULES}: name a folder in it"
        raise OfferError(wanted.address.text, reason)
    return tuple(Submodule(path, at, _remote(path, urls[path], at, git, wanted)) for path, at in known)


def _urls(git: Git, commit: str) -> dict[str, str]:
    """Return the URLs that `.gitmodules` of a commit has, by path."""
    arguments = ["config", "--blob", f"{commit}:.gitmodules", "--no-includes", "-z", "--list"]
    try:
        listing = git.run(*arguments, max_output=_MAX_BYTES).decode(errors="surrogateescape")
    except GitFailedError:  # there is none, or it cannot be read: then no submodule is known
        return {}
    fields: dict[str, dict[str, str]] = {}
    for key, _, value in (line.partition("\n") for line in listing.split("\0")):
        if match := _FIELD.fullmatch(key):
            fields.setdefault(match["name"], {})[match["field"]] = value
    urls: dict[str, str] = {}
    for each in fields.values():
        if (path := each.get("path", "")) in urls:
            raise git.refused(f"its .gitmodules has two submodules at {shown(path)}")
        if "url" in each:
            urls[path] = each["url"]
    return urls


def _remote(path: str, url: str, commit: str, git: Git, wanted: Wanted) -> Remote:
    """Return where a submodule is. Raises OfferError."""
    package = wanted.address.text
    refusal = (
        f"the URL of its submodule {shown(path)} is none that it may name ({shown(without_secrets(url))})"
    )
    whole = _joined(git.remote.url, url) if url.startswith(("./", "../")) else url
    # `parse_address` would take `owner/repo` for one of GitHub, and a path for one of this machine.
    is_remote = "://" in whole or _SCP.fullmatch(whole)
    if not is_remote or whole != without_secrets(whole):
        raise OfferError(package, refusal)
    text = f"git+{whole}" if "://" in whole and not whole.startswith(("git+", "ssh://")) else whole
    try:
        address = parse_address(f"{text}#{commit}", Path("/"))
    except AddressError as error:
        raise OfferError(package, refusal) from error
    if address.kind != "git" or address.ref != commit:
        raise OfferError(package, refusal)
    try:
        return Remote.of(address.place, check_host(address.named_by(wanted.address), package))
    except OfferError as error:
        raise OfferError(package, f"of its submodule {shown(path)}: {error.reason}") from error


def _joined(base: str, relative: str) -> str:
    """Return what a URL means that begins with `./` or `../`: it is relative to the repository's own."""
    scp = None if "://" in base else _SCP.fullmatch(base)
    if scp:
        return f"{scp['host']}:{_below(scp['path'], relative)}"
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc}/{_below(parts.path, relative)}"


def _below(path: str, relative: str) -> str:
    """Return a path within its host; what leads above that is nothing that an address takes."""
    joined = posixpath.normpath(posixpath.join(path.strip("/"), relative))
    return "#" if joined.startswith("..") else joined
