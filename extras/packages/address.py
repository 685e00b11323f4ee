"""The grammar of what people type to name a place of skills: `skills install ADDRESS`.

    ./folder  /folder  ~/folder                       a folder of skills, or of one
    ./x.zip  x.skill  x.tar.gz                        an archive
    owner/repo  owner/repo/path@ref                   a repository of GitHub
    https://github.com/owner/repo/tree/ref/path       the same, as a browser shows it; GitLab's, too
    https://host/x.git@ref#path  ssh://...  git@host:owner/repo@ref#path   a repository of any host
    https://host/x.zip                                an archive
    https://host[/path]                               a site with /.well-known/agent-skills/

`git+` before a URL says that it is a repository. `proposal:THREAD` stands in locks alone (proposal.py): there
is nothing to fetch.
"""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from skills_agent.packages.errors import not_offered, shown
from skills_agent.skills.network.hosts import split_authority

Kind = Literal["folder", "archive", "git", "url", "well-known"]

ARCHIVES: Final = (".zip", ".skill", ".tar.gz", ".tgz")
_MAX: Final = 2_000
_TAIL: Final = r"(?:@(?P<ref>[^@#]*))?(?:#(?P<path>.*))?"
_SCP: Final = re.compile(rf"(?P<place>[\w.-]+@(?P<host>[\w.-]+):[\w./~-]+){_TAIL}")
_SHORT: Final = re.compile(rf"(?P<repo>[A-Za-z0-9][\w-]*/[\w.-]+?)(?:\.git)?(?:/(?P<inner>[^@#]+))?{_TAIL}")
_GIT: Final = re.compile(rf"(?:git\+)?(?P<place>(?:https?|ssh|file)://[^/]*/[^@#]*){_TAIL}")
_GITHUB: Final = re.compile(r"https?://(?:www\.)?github\.com/(?P<repo>[\w.-]+/[\w.-]+?)(?:\.git)?/?")
_TREE: Final = re.compile(
    r"(?P<host>https?://[^/]+)/(?P<repo>[\w./-]+?)(?:\.git)?/(?:-/)?tree/(?P<ref>[^/]+)(?P<path>/.*)?"
)
_SECRET: Final = re.compile(r"(?i)(?P<scheme>[a-z0-9+.-]+)://[^/?#]*@")
_REF: Final = re.compile(r"[\w][\w./+-]*")
_FORMS: Final = "write a folder, an archive, owner/repo or a URL"


@dataclass(frozen=True)
class Address:
    """A place of skills, taken apart."""

    text: str
    """As it was typed, and as it stands in the lock."""
    kind: Kind
    place: str
    """The folder or the file as an absolute path; the URL to ask."""
    ref: str = ""
    """A branch, a tag or a commit of a repository."""
    path: str = ""
    """A folder within; relative, with `/`; empty for all of it."""
    is_typed: bool = field(default=False, compare=False)
    """Whether a person typed it on this machine: its host may be a private one."""

    @property
    def is_near(self) -> bool:
        """Return whether it is on this machine."""
        return self.kind in {"folder", "archive"} or self.place.startswith("file:")


def parse_address(text: str, base: Path) -> Address:
    """Take apart what a person typed; relative paths are those of `base`. Raises PackageError."""
    if not text.strip() or len(text) > _MAX or text.startswith("-") or not text.isprintable():
        raise not_offered(_SECRET.sub("...", text) or "An empty text", _FORMS)
    secret = _SECRET.match(text)
    if secret and ("http" in secret["scheme"].lower() or ":" in secret[0].partition("://")[2]):
        reason = "a password or a token belongs in a credential helper of git, and in no address"
        raise not_offered(f"{secret['scheme']}://...", reason)
    address = _taken_apart(text, base)
    if ".." in address.path.split("/"):
        raise not_offered(text, "its path leads out of the repository")
    if address.ref and (not _REF.fullmatch(address.ref) or ".." in address.ref):
        raise not_offered(text, f"{shown(address.ref)} is no branch, tag or commit")
    inner = "/".join(each for each in address.path.split("/") if each not in {"", "."})
    return replace(address, path=inner, is_typed=True)


def portable(address: Address, folder: Path) -> str:
    """Return an address as the lock of a folder has it: a place on this machine relative to that folder."""
    if address.kind not in {"folder", "archive"}:
        return address.text
    relative = os.path.relpath(os.path.realpath(address.place), os.path.realpath(folder))
    return relative if relative.startswith("..") else f"./{relative}"


def _taken_apart(text: str, base: Path) -> Address:
    if text.startswith(("/", "./", "../", "~")) or text in {".", ".."}:
        return _local(text, base)
    if "://" in text:
        return _url(text)
    if match := _SCP.fullmatch(text):
        return Address(text, "git", match["place"], match["ref"] or "", match["path"] or "")
    if os.path.exists(base / text):  # noqa: PTH110 - False also for too long a name
        return _local(text, base)
    if match := _SHORT.fullmatch(text):
        url = f"https://github.com/{match['repo']}.git"
        return Address(text, "git", url, match["ref"] or "", match["inner"] or match["path"] or "")
    raise not_offered(text, "there is no such file" if text.endswith(ARCHIVES) else _FORMS)


def _local(text: str, base: Path) -> Address:
    try:
        place = base / Path(text).expanduser()
        is_folder, is_there = place.is_dir(), place.exists()
    except (OSError, RuntimeError) as error:  # too long a name, or a home that nobody has
        reason = getattr(error, "strerror", None) or "there is no such home folder"
        raise not_offered(text, reason) from error
    if is_folder:
        return Address(text, "folder", str(place))
    if not is_there:
        raise not_offered(text, "there is no such file or folder")
    if not text.endswith(ARCHIVES):
        raise not_offered(text, f"a file of skills ends in {', '.join(ARCHIVES)}")
    return Address(text, "archive", str(place))


def _url(text: str) -> Address:
    try:
        parts = urlsplit(text)
        if parts.scheme not in {"file", "git+file"}:
            split_authority(parts.netloc.rpartition("@")[2])
    except ValueError as error:
        raise not_offered(text, "its host cannot be read") from error
    if match := _TREE.fullmatch(text):
        place = f"{match['host'].replace('//www.', '//')}/{match['repo']}.git"
        return Address(text, "git", place, match["ref"], match["path"] or "")
    if match := _GITHUB.fullmatch(text):
        return Address(text, "git", f"https://github.com/{match['repo']}.git")
    match = _GIT.fullmatch(text)
    if match and (text.startswith(("git+", "ssh:")) or match["place"].endswith(".git")):
        return Address(text, "git", match["place"], match["ref"] or "", match["path"] or "")
    if parts.scheme not in {"https", "http"}:
        raise not_offered(text, f"nothing is fetched by {parts.scheme}")
    if parts.path.endswith(ARCHIVES):
        return Address(text, "url", text.partition("#")[0])
    return Address(text, "well-known", text)
