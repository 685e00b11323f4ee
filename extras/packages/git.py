"""Skills of a git repository: find the commit that a branch or a tag means, fetch it alone, read its files.

A commit of 40 or 64 digits is always just that commit, whatever a branch of that name means.
"""

import re
from typing import Final

from skills_agent.packages.errors import OfferError
from skills_agent.packages.git_program import Git, GitFailedError, Remote, sentence
from skills_agent.packages.git_tree import SkillsTree
from skills_agent.packages.offer import Offer, Wanted
from skills_agent.packages.origins import check_host
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT: Final = re.compile(r"[0-9a-f]{4,63}")
_HEADS: Final = "refs/heads/"
_TAGS: Final = "refs/tags/"
_MAX_REFS: Final = 20_000_000
"""Bytes of a list of branches and tags."""
_FETCH: Final = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
_REFUSALS: Final = (
    "not our ref",
    "unadvertised object",
    "does not support shallow",
    "remote ref",
    "no such remote ref",
)
"""What servers say that do not send a commit by its name alone."""


def from_git(wanted: Wanted) -> Offer:
    """Offer the skills of a repository, at one commit. Raises PackageError."""
    tree, commit = fetch_tree(wanted)
    return offer_of_tree(tree, commit, wanted)


def offer_of_tree(tree: SkillsTree, commit: str, wanted: Wanted) -> Offer:
    """Offer the skills of a commit that was fetched. Raises PackageError."""
    try:
        tree.write(wanted.address.path, wanted.limits)
        return Offer(wanted.address, tree.stage(wanted), commit)
    except GitFailedError as error:
        raise OfferError(wanted.address.text, sentence(error.said)) from error


def file_of(tree: SkillsTree, path: str, limit: int, wanted: Wanted) -> bytes | None:
    """Return one file of a commit that was fetched; None where there is none. Raises OfferError."""
    try:
        return tree.read(path, limit)
    except GitFailedError as error:
        raise OfferError(wanted.address.text, sentence(error.said)) from error


def fetch_tree(wanted: Wanted) -> tuple[SkillsTree, str]:
    """Fetch a commit, and return what it holds, of which nothing is written yet, with its full name."""
    address = wanted.address
    remote = Remote.of(address.place, check_host(address, address.text))
    folder = wanted.into / "git"
    folder.mkdir()
    git = Git(remote, folder, address.text, wanted.limits.max_bytes)
    try:
        commit = _Refs(git).fetch(address.ref, wanted.resolved)
    except GitFailedError as error:
        raise OfferError(address.text, sentence(error.said)) from error
    return SkillsTree(git, commit, wanted.into / "tree", address.text), commit


class _Refs:
    """The branches and tags of a repository, and the commits that they mean."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._url = git.remote.url

    def fetch(self, ref: str, resolved: str) -> str:
        """Fetch the commit that a ref means, or the one it once meant, and return its name."""
        if resolved and not _COMMIT.fullmatch(resolved):
            raise self._git.refused(f"{_shown(resolved)} is no commit")
        wanted = resolved or ref
        if _COMMIT.fullmatch(wanted):
            return self._fetched(wanted, f"+{_HEADS}*:{_HEADS}*", f"+{_TAGS}*:{_TAGS}*")
        name, commit = self._looked_up(ref)
        return self._fetched(commit, f"+{name}:refs/wanted") if name else commit

    def _looked_up(self, ref: str) -> tuple[str, str]:
        """Return the full name of a ref, and its commit."""
        patterns = [ref, f"{ref}^{{}}"] if ref else ["HEAD"]
        found = self._advertised(*patterns)
        if not ref:
            if "HEAD" not in found:
                raise self._git.refused("it has no commit yet, or no default branch: name a branch")
            return "HEAD", found["HEAD"]
        names = [
            each
            for each in (f"{_HEADS}{ref}", f"{_TAGS}{ref}", ref * ref.startswith("refs/"))
            if each in found
        ]
        commits = {name: found.get(f"{name}^{{}}", found[name]) for name in names}
        if len(set(commits.values())) > 1:
            reason = f"{ref} is a branch and a tag there: write refs/heads/{ref} or refs/tags/{ref}"
            raise self._git.refused(reason)
        if names:
            return names[0], commits[names[0]]
        if _SHORT.fullmatch(ref):
            return "", self._completed(ref)
        # `npx skills` takes owner/repo@name for a skill.
        hint = f"; for a skill of that name, write --skill {ref}" if is_spec_name(ref) else ""
        raise self._git.refused(f"it has no branch, tag or commit named {_shown(ref)}{hint}")

    def _advertised(self, *patterns: str) -> dict[str, str]:
        listing = self._git.run("ls-remote", "--quiet", "--", self._url, *patterns, max_output=_MAX_REFS)
        lines = (line.split("\t", 1) for line in listing.decode(errors="replace").splitlines())
        return {name: commit for commit, name in lines if _COMMIT.fullmatch(commit)}

    def _completed(self, short: str) -> str:
        """Return the commit that begins so: all there are have to be fetched to know."""
        self._git.init("")
        self._git.run(*_FETCH, "--", self._url, f"+{_HEADS}*:{_HEADS}*", f"+{_TAGS}*:{_TAGS}*")
        try:
            return self._commit(short)
        except GitFailedError as error:
            reason = f"it has no branch, tag or commit named {_shown(short)}"
            if "ambiguous" in error.said:
                reason = f"{short} is the beginning of more than one commit: write more of it"
            raise self._git.refused(reason) from error

    def _fetched(self, commit: str, *instead: str) -> str:
        """Fetch a commit alone, or all of the refs `instead` from a server that does not do that."""
        self._git.init(commit)
        try:
            self._git.run(*_FETCH, "--depth=1", "--", self._url, commit)
        except GitFailedError as error:
            if not any(each in error.said for each in _REFUSALS):
                raise
            self._git.run(*_FETCH, "--", self._url, *instead)
        try:
            return self._commit(commit)
        except GitFailedError as error:
            raise self._git.refused(f"its commit {commit[:12]} is gone, or is none") from error

    def _commit(self, name: str) -> str:
        done = self._git.run("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
        return done.decode().strip()


def _shown(ref: str) -> str:
    return cut(visible_line(ref), 80)
