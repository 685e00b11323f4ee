"""Read a repository's history with git: nothing is written, no hook, pager or network is used."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SAFE = (
    "--no-pager",
    "-c", "core.fsmonitor=false",
    "-c", "core.quotePath=false",
    "-c", "i18n.logOutputEncoding=UTF-8",
    "-c", "log.showSignature=false",
)  # fmt: skip
"""A repository's own configuration can name programs to run: these settings leave none for what we call."""
TIMEOUT = 50
"""Seconds for one call of git."""
FORMAT = "%H%x00%h%x00%P%x00%as%x00%aN%x00%s%x00%b"
FIELDS = FORMAT.count("%x00") + 1


class HistoryError(Exception):
    """git is missing or failed."""

    exit_code = 1


class RequestError(HistoryError):
    """The call has to change: not a repository, no such revision, no commits."""

    exit_code = 2


class Commit(NamedTuple):
    """One commit."""

    sha: str
    short: str
    parents: int
    date: str
    author: str
    subject: str
    body: str


class Span(NamedTuple):
    """Which commits are meant: all that `to` has and `start` has not."""

    start: str | None
    """None for the whole history."""
    to: str

    def __str__(self) -> str:
        """Return the span as people write it."""
        return f"{self.start}..{self.to}" if self.start else f"everything up to {self.to}"


class Size(NamedTuple):
    """How much a span of commits changed."""

    files: int
    insertions: int
    deletions: int


def git(repo: Path, *arguments: str) -> str:
    """Return what a git command prints. Raises HistoryError with git's own last line when it fails."""
    command = ["git", "-C", str(repo), *SAFE, *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - an argument list; revisions are checked before
            command,
            check=False,
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
        )
    except FileNotFoundError as error:
        raise HistoryError("git is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise HistoryError(f"git {arguments[0]} took more than {TIMEOUT} seconds") from error
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise HistoryError(f"git {arguments[0]} failed: {reason[0]}")
    return done.stdout.decode("utf-8", "replace")


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git asks nothing, fetches nothing and works where it is told."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("GIT_")}
    # A repository can name a program as its protocol. A git older than GIT_NO_LAZY_FETCH has none to use.
    fetches_nothing = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", **fetches_nothing}
    return {**kept, **quiet, "LC_ALL": "C.UTF-8"}


def check_repository(repo: Path) -> None:
    """Raise RequestError when there is no repository, HistoryError when git refuses it."""
    if not repo.is_dir():
        raise RequestError(f"no such folder: {repo}")
    try:
        git(repo, "rev-parse", "--git-dir")
    except HistoryError as error:
        if "not a git repository" in str(error):
            raise RequestError(f"not a git repository: {repo}") from error
        raise


def find_commit(repo: Path, revision: str) -> str:
    """Return the full id of a tag, branch or commit; RequestError when there is none."""
    strange = (
        not revision or revision.startswith(("-", "^")) or not revision.isprintable() or ".." in revision
    )
    if strange or re.search(r"[\s:?*\[\\]", revision):
        raise RequestError(f"not a revision: {revision!r} (a tag, a branch or a commit is)")
    try:
        found = git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except HistoryError as error:
        if revision == "HEAD":
            raise RequestError(f"no commits yet in {repo}") from error
        raise RequestError(f"no tag, branch or commit named {revision} in {repo}") from error
    return found.strip()


def last_tag(repo: Path, sha: str) -> str | None:
    """Return the nearest tag before a commit; None without one.

    A tag on the commit itself does not count: that release is the one to be described.
    """
    try:
        return git(repo, "describe", "--tags", "--abbrev=0", f"{sha}^").strip()
    except HistoryError:
        return None


def tag_on(repo: Path, sha: str) -> str | None:
    """Return the tag that a commit itself carries; None when it has none."""
    try:
        return git(repo, "describe", "--tags", "--exact-match", sha).strip()
    except HistoryError:
        return None


def is_shallow(repo: Path) -> bool:
    """Return whether the history was cut when the repository was cloned."""
    return git(repo, "rev-parse", "--is-shallow-repository").strip() == "true"


def read_commits(repo: Path, start: str | None, to: str, limit: int) -> list[Commit]:
    """Return the newest `limit` commits that `to` has and `start` has not, newest first (full ids)."""
    span = f"{start}..{to}" if start else to
    out = git(repo, "log", "-z", f"--max-count={limit}", f"--format={FORMAT}", "--end-of-options", span, "--")
    parts = out.split("\0")
    records = [parts[place : place + FIELDS] for place in range(0, len(parts) - FIELDS + 1, FIELDS)]
    return [
        Commit(sha, short, len(parents.split()), date, author, subject, body.strip())
        for sha, short, parents, date, author, subject, body in records
    ]


def count_commits(repo: Path, start: str | None, to: str) -> int:
    """Return how many commits `to` has and `start` has not."""
    span = f"{start}..{to}" if start else to
    return int(git(repo, "rev-list", "--count", "--end-of-options", span, "--"))


def measure(repo: Path, start: str | None, to: str) -> Size:
    """Return how much differs between two commits; from nothing when `start` is None."""
    base = start or git(repo, "hash-object", "-t", "tree", "--stdin").strip()
    out = git(repo, "diff", "--shortstat", "--no-ext-diff", "--no-textconv", base, to, "--")
    found = {unit: int(number) for number, unit in re.findall(r"(\d+) (file|insertion|deletion)", out)}
    return Size(found.get("file", 0), found.get("insertion", 0), found.get("deletion", 0))
