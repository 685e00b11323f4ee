"""The grammar of what people type to name a place of skills: `skills install ADDRESS`.

    ./folder  /folder  ~/folder                       a folder of skills, or of one
    ./x.zip  x.skill  x.tar.gz                        an archive
    owner/repo  owner/repo/path@ref  owner/repo#ref   a repository of GitHub
    https://github.com/owner/repo/tree/ref/path       the same; of GitLab https://host/group/repo/-/tree/ref/path
    git+https://host/x.git@ref#path  ssh://...  git@host:owner/repo    a repository of any host
    https://host/x.zip                                an archive
    https://host[/path]                               a site with /.well-known/agent-skills/

`proposal:THREAD` stands in locks alone (proposal.py): there is nothing to fetch.

The order of the rules is that of `npx skills` 1.7, where it has one: what its users type means the same here.
"""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from skills_agent.packages.credentials import without_secrets
from skills_agent.packages.errors import OfferError
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line

Kind = Literal["folder", "archive", "git", "url", "well-known", "proposal"]

_PROPOSAL: Final = "proposal:"
ARCHIVES: Final = (".zip", ".skill", ".tar.gz", ".tgz")
_MAX: Final = 2_000
_SCP: Final = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<path>[\w./~-]+)")
_OWNER: Final = re.compile(r"(?P<owner>[A-Za-z0-9][\w-]*)/(?P<repo>[\w.-]+?)(?:\.git)?(?P<path>(?:/[^@#]+)?)")
_GITHUB: Final = frozenset({"github.com", "www.github.com"})
_TREE: Final = re.compile(r"/(?P<repo>[\w.-]+/[\w.-]+?)(?:\.git)?(?:/tree/(?P<ref>[^/]+)(?P<path>/.*)?)?/?")
_GITLAB_TREE: Final = re.compile(r"/(?P<repo>[\w./-]+?)/-/tree/(?P<ref>[^/]+)(?P<path>/.*)?")
_REF: Final = re.compile(r"[\w][\w./+-]*")
_GIT_SCHEMES: Final = frozenset({"git+https", "git+http", "git+ssh", "git+file", "ssh", "git"})


@dataclass(frozen=True)
class Address:
    """A place of skills, taken apart."""

    text: str
    """As it stands in the lock: what was typed, without a password, and of HTTP without a user."""
    kind: Kind
    place: str
    """The folder or the file as an absolute path; the URL to ask, with its secrets."""
    ref: str = ""
    """A branch, a tag or a commit of a repository."""
    path: str = ""
    """A folder within; relative, with `/`; empty for all of it."""
    typed: str = field(default="", compare=False)
    """The place that a person typed, and that led here: its host may be a private one. Empty: nobody did."""

    @property
    def is_near(self) -> bool:
        """Return whether it is on this machine."""
        return self.kind in {"folder", "archive"} or self.place.startswith("file:")


def parse_address(text: str, base: Path) -> Address:
    """Take apart what a person typed; relative paths are those of `base`. Raises OfferError."""
    address = _taken_apart(text, base)
    return replace(address, typed=address.place)


def _taken_apart(text: str, base: Path) -> Address:
    shown = _shown(without_secrets(text))
    if not text.strip() or len(text) > _MAX or text.startswith("-") or not text.isprintable():
        raise OfferError(shown or "An empty text", "write a folder, an archive, owner/repo or a URL")
    if text.startswith(("/", "./", "../", "~")) or text in {".", ".."}:
        return _local(text, base)
    scheme, separator, _ = text.partition("://")
    if separator:
        return _url(f"{scheme.lower()}{text[len(scheme) :]}", scheme.lower())
    if match := _SCP.fullmatch(text.partition("#")[0]):
        rest = text.partition("#")[2]
        return Address(text, "git", match[0], *_ref_and_path(text, rest, ""))
    if os.path.exists(base / text.partition("#")[0]):  # noqa: PTH110 - False also for too long a name
        return _local(text, base)
    plain, _, ref = text.partition("#")
    if "/" in plain:
        plain, at, tag = plain.partition("@")
        if match := _OWNER.fullmatch(plain):
            url = f"https://github.com/{match['owner']}/{match['repo']}.git"
            return Address(
                text, "git", url, _checked_ref(text, tag if at else ref), _checked_path(text, match["path"])
            )
    elif plain.endswith(ARCHIVES):
        raise OfferError(shown, "there is no such file")
    raise OfferError(shown, "write a folder, an archive, owner/repo or a URL")


def proposal_address(thread: str) -> Address:
    """Return where a skill is from that was proposed in a thread; a client may have chosen its id."""
    shown = _shown(thread)
    return Address(f"{_PROPOSAL}{shown}", "proposal", shown)


def portable(address: Address, folder: Path) -> str:
    """Return an address as the lock of a folder has it: a place on this machine relative to that folder."""
    if address.kind not in {"folder", "archive"}:
        return address.text
    relative = os.path.relpath(os.path.realpath(address.place), os.path.realpath(folder))
    return relative if relative.startswith("..") else f"./{relative}"


def pinned(address: Address, resolved: str) -> str:
    """Return an address that means exactly what `address` was resolved to: a commit, or a URL."""
    if address.kind != "git":
        return resolved
    place, path = without_secrets(address.place), address.path
    if "://" not in place:  # user@host:path
        return f"{place}#{resolved}:{path}"
    return f"git+{place}@{resolved}{'#' * bool(path)}{path}"


def _local(text: str, base: Path) -> Address:
    try:
        place = base / Path(text).expanduser()
        is_folder, is_there = place.is_dir(), place.exists()
    except (OSError, RuntimeError) as error:  # too long a name, or a home that nobody has
        reason = getattr(error, "strerror", None) or "there is no such home folder"
        raise OfferError(_shown(text), reason) from error
    if is_folder:
        return Address(text, "folder", str(place))
    if not is_there:
        raise OfferError(_shown(text), "there is no such file or folder")
    if not text.endswith(ARCHIVES):
        raise OfferError(_shown(text), f"a file of skills ends in {', '.join(ARCHIVES)}")
    return Address(text, "archive", str(place))


def _url(text: str, scheme: str) -> Address:
    shown = without_secrets(text)
    parts = _parts(shown, scheme)
    if scheme in _GIT_SCHEMES or parts.path.endswith(".git") or ".git@" in parts.path:
        return _git_url(text, shown)
    if scheme not in {"https", "http"}:
        raise OfferError(_shown(shown), f"nothing is fetched by {scheme}")
    if match := (_TREE if parts.hostname in _GITHUB else _GITLAB_TREE).fullmatch(parts.path):
        host = "github.com" if parts.hostname in _GITHUB else parts.netloc
        user, at, _ = text.partition("://")[2].partition("/")[0].rpartition("@")
        url = f"{scheme}://{user}{at}{host}/{match['repo']}.git"
        ref = match["ref"] or parts.fragment
        return Address(shown, "git", url, _checked_ref(shown, ref), _checked_path(shown, match["path"] or ""))
    if parts.path.endswith(ARCHIVES):
        return Address(shown, "url", text.partition("#")[0])
    return Address(shown, "well-known", text)


def _parts(shown: str, scheme: str) -> SplitResult:
    """Take a URL without secrets apart. Raises OfferError, which shows nothing of what cannot be read."""
    try:
        parts = urlsplit(shown)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        reason = "its host cannot be read; in a password, write / and @ as %2F and %40"
        raise OfferError(f"{_shown(scheme)}://...", reason) from error
    if not host and scheme != "git+file":
        raise OfferError(_shown(shown), "it names no host")
    if parts.netloc.startswith("-") or host.startswith("-"):
        raise OfferError(_shown(shown), "a host does not begin with a hyphen")
    return parts


def _git_url(text: str, shown: str) -> Address:
    plain, _, path = text.removeprefix("git+").partition("#")
    head, at, ref = plain.rpartition("@")
    if at and "/" in head.partition("://")[2]:  # the `@` of a user stands before the first slash
        plain = head
    else:
        ref = ""
    if shown != text and "http" not in plain.partition("://")[0]:
        raise OfferError(_shown(shown), "a password is sent by HTTPS alone; ssh takes a key")
    return Address(shown, "git", plain, *_ref_and_path(shown, path, ref))


def _ref_and_path(text: str, fragment: str, ref: str) -> tuple[str, str]:
    """Read `#path`, `#ref` and `#ref:path`: what follows a repository's URL."""
    first, colon, second = fragment.partition(":")
    if colon:
        return _checked_ref(text, first), _checked_path(text, second)
    return (_checked_ref(text, ref), _checked_path(text, first)) if ref else (_checked_ref(text, first), "")


def _shown(text: str) -> str:
    return cut(visible_line(text), 200)


def _checked_ref(text: str, ref: str) -> str:
    if ref and (not _REF.fullmatch(ref) or ".." in ref):
        raise OfferError(_shown(text), f"{_shown(ref)} is no branch, tag or commit")
    return ref


def _checked_path(text: str, path: str) -> str:
    parts = [each for each in path.split("/") if each not in {"", "."}]
    if ".." in parts:
        raise OfferError(_shown(text), "its path leads out of the repository")
    return "/".join(parts)
