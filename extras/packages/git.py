"""Skills of a git repository: one commit is fetched into a bare repository of ours, and its objects are read.

No work tree is made by `git`: no filter, attribute (`export-ignore`, `eol`) or hook has a say, whatever the
repository holds. The configuration of the user counts, with proxies and credential helpers; what might run or
reach something else is turned off by options, which count more. Redirects are not followed.
"""

import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import IO, Final, NamedTuple

from skills_agent.packages.address import Address
from skills_agent.packages.entries import ArchiveEntry, Kind, write_entries
from skills_agent.packages.errors import not_offered, shown
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.packages.origins import check_host, reached
from skills_agent.packages.staging import stage
from skills_agent.skills.scripts.programs import find_program, path_outside
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.visible import visible_line

SECONDS: Final = 300.0
"""For all that is asked of one repository."""
_MAX_LISTING: Final = 30_000_000
"""Bytes of the list of files: some 300,000 of them."""
_MAX_ERROR: Final = 20_000
_PIECE: Final = 1 << 20
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_KINDS: Final[dict[bytes, Kind]] = {b"120000": "link", b"100755": "exec"}
_KEPT: Final = ("GIT_SSH_COMMAND", "GIT_SSL_", "GIT_CONFIG_", "GIT_ASKPASS")
"""Variables of the user that count; others would lead `git` to another repository."""
_FIXED: Final = {
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}
_OPTIONS: Final = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.bigFileThreshold=16m",  # larger files are written as they come, not held in memory
    "transfer.fsckObjects=true",
    "fetch.fsckObjects=true",
    "transfer.unpackLimit=1",
    "fetch.unpackLimit=1",
    "transfer.bundleURI=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
)
_SSH: Final = "ssh -oBatchMode=yes -oForwardAgent=no -oClearAllForwardings=yes -oPermitLocalCommand=no"
_SSH_PORT: Final = 22
_LIMITED: Final = 'ulimit -f "$0"; exec "$@"'
"""No file that a program writes is larger, in 512 bytes."""
_FAULTS: Final = ("fatal:", "error:", "ERROR:")
_MEANS: Final = {
    r"invalid index-pack output": "its repository sends more than {most:,} bytes",
    r"find remote ref": "it has no such branch, tag or commit; a skill of that name is --skill NAME",
    r"redirect|error: 30": "it leads elsewhere now, which is not followed: name where it is",
    r"could not read Username|Authentication failed": (
        "it is not there, or asks for credentials: use ssh or a credential helper"
    ),
    r"Host key verification": (
        "ssh does not know the key of its host: connect to it once, and look at the key"
    ),
}
"""What `git` says, and what that means. The first is said where the limit ended the program that writes."""


def from_git(wanted: Selection) -> tuple[OfferedSkill, ...]:
    """Offer the skills of a repository, at one commit. Raises PackageError."""
    address, limits = wanted.address, wanted.limits
    if wanted.resolved and not _COMMIT.fullmatch(wanted.resolved):
        raise not_offered(address.text, f"{shown(wanted.resolved)} is no commit")
    git = Git(address, wanted.into / "git", check_host(address))
    git.run("init", "--bare", "--quiet", "--template=", ".")
    # A name of 40 digits is a commit to git, whatever a branch of that name means.
    fetched = f"+{wanted.resolved or address.ref or 'HEAD'}:refs/wanted"
    options = ("--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
    git.run("fetch", "--quiet", *options, "--", address.place, fetched, most=limits.max_bytes)
    commit = git.run("rev-parse", "--verify", "refs/wanted^{commit}").decode().strip()
    paths = ("--", address.path) if address.path else ()
    listing = git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, *paths, most=_MAX_LISTING)
    files = _of_skills([_listed(line) for line in listing.split(b"\0") if line])
    if len(files) > limits.max_files or sum(file.size for file in files) > limits.max_bytes:
        bound = f"{limits.max_files:,} files or {limits.max_bytes:,} bytes"
        raise not_offered(address.text, f"its skills have more than {bound}: name a folder in it")
    tree = wanted.into / "tree"
    try:
        (tree / address.path if files else tree).mkdir(parents=True)
        with tempfile.TemporaryFile() as ids, tempfile.TemporaryFile() as blobs:
            ids.writelines(file.id + b"\n" for file in files if file.mode != b"160000")
            ids.seek(0)
            most = 2 * limits.max_bytes + 100 * len(files)
            git.run("cat-file", "--batch", most=most, given=ids, output=blobs)
            blobs.seek(0)
            unwritten = write_entries(_entries(files, blobs), tree, address.text, limits)
    except OSError as error:
        raise not_offered(address.text, error.strerror or str(error)) from error
    return stage(tree, wanted, commit, unwritten)


class Git:
    """`git`, with a bare repository of ours."""

    def __init__(self, address: Address, folder: Path, addresses: Sequence[str]) -> None:
        """Name a folder to be made, the one place that is asked, and where it is; no addresses: anywhere.

        Raises PackageError without `git`.
        """
        path, here = os.environ.get("PATH", os.defpath), Path.cwd()
        program, elsewhere = find_program("git", path, here)
        if program is None:
            reason = elsewhere or "it is not installed"
            raise not_offered(address.text, f"the program git is needed for that, and {reason.rstrip('.')}")
        folder.mkdir()
        self._package = address.text
        self._folder = folder
        self._end = monotonic() + SECONDS
        options = list(_OPTIONS)
        names = (name for name in os.environ if not name.startswith("GIT_") or name.startswith(_KEPT))
        user = {name: os.environ[name] for name in names}
        user["PATH"] = path_outside(path, here)  # git finds ssh, and what it asks with, by it
        self._environment = {"GIT_SSH_COMMAND": _SSH, **user, **_FIXED, "GIT_DIR": str(folder.resolve())}
        _, target = reached(address)
        if addresses and target and ":" not in target.host:  # an address of IPv6 is no name
            options.append(f"http.curloptResolve={target}:{','.join(addresses)}")  # since git 2.37
            key = target.host if target.port == _SSH_PORT else f"[{target.host}]:{target.port}"
            way = shlex.join([f"-oHostName={addresses[0]}", f"-oHostKeyAlias={key}"])
            self._environment["GIT_SSH_COMMAND"] += f" {way}"
        self._command = [program, *(part for option in options for part in ("-c", option))]

    def run(
        self,
        *arguments: str,
        most: int = 1_000_000,
        given: IO[bytes] | None = None,
        output: IO[bytes] | None = None,
    ) -> bytes:
        """Return what a command prints, or write it to `output`. Raises PackageError.

        No file that it writes is larger than `most` bytes.
        """
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(  # noqa: S603 - our own arguments; what others name stands after `--`
                ["/bin/sh", "-c", _LIMITED, str(most // 512 + 1), *self._command, *arguments],
                stdin=given or subprocess.DEVNULL,
                stdout=output or printed,
                stderr=errors,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,  # ssh finds no terminal to ask at
            )
            try:
                code = process.wait(max(self._end - monotonic(), 0))
            except subprocess.TimeoutExpired as error:
                raise not_offered(self._package, f"it takes longer than {SECONDS:g} seconds") from error
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)  # and what it started
                    process.wait()
            if code == -signal.SIGXFSZ:
                raise not_offered(self._package, "it has more files than can be looked at")
            if code:
                errors.seek(0)
                said = errors.read(_MAX_ERROR).decode(errors="replace")
                raise not_offered(self._package, _sentence(said).format(most=most))
            printed.seek(0)
            return printed.read()


class _File(NamedTuple):
    """One file of a commit."""

    mode: bytes
    """`100644`, `100755`; of a link `120000`, of a submodule `160000`."""
    id: bytes
    size: int
    path: str
    """What is not UTF-8 in it is a lone surrogate."""


def _listed(line: bytes) -> _File:
    facts, _, path = line.partition(b"\t")
    mode, _, name, size = facts.split()
    return _File(mode, name, 0 if size == b"-" else int(size), os.fsdecode(path))


def _of_skills(files: list[_File]) -> list[_File]:
    """Return what is in folders with a SKILL.md: the rest of a repository may be large, and odd."""
    places = [PurePosixPath(file.path) for file in files]
    tops = {each.parent for each in places if each.name.upper() == SKILL_FILE.upper()}
    return [each for each, place in zip(files, places, strict=True) if not tops.isdisjoint(place.parents)]


def _entries(files: Iterable[_File], blobs: IO[bytes]) -> Iterator[ArchiveEntry]:
    """Read files from what `cat-file --batch` prints."""
    for mode, name, size, path in files:
        if mode == b"160000":
            yield ArchiveEntry(path, "file", fault="it is a submodule, which is not fetched")
            continue
        if blobs.readline() != b"%s blob %d\n" % (name, size):
            raise OSError(f"{visible_line(path)} is not in the repository")
        end = blobs.tell() + size
        yield ArchiveEntry(path, _KINDS.get(mode, "file"), _pieces(blobs, end))
        blobs.seek(end + 1)


def _pieces(file: IO[bytes], end: int) -> Iterator[bytes]:
    while piece := file.read(min(_PIECE, end - file.tell())):
        yield piece


def _sentence(said: str) -> str:
    """Return the reason that `git` gave, on one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    first = next((each for each, line in enumerate(lines) if line.startswith(_FAULTS)), -1)
    told = lines[first].partition(": ")[2] if first >= 0 else (lines or ["it failed"])[-1]
    if "Could not read from remote" in told and first > 0:  # ssh said why, on the line before
        told = lines[first - 1]
    told = shown(told, 300).rstrip(".").replace("{", "{{").replace("}", "}}")
    means = next((reason for words, reason in _MEANS.items() if re.search(words, told)), "")
    return f"{means} ({told})" if means else f"git says: {told}"
