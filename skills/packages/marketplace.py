"""Skills of a marketplace of Claude Code: `.claude-plugin/marketplace.json`, by its URL or in a repository.

A plugin is a place like others: a repository at a ref or a commit (`sha` is stronger), a folder of one, an
archive. What would run a program to get it (`npm`, `command`) is refused. Nothing of a plugin but its skills
is looked at: no hooks, no commands, no servers. Source: code.claude.com/docs/en/plugin-marketplaces, August
2026.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from skills_agent.skills.errors import list_names
from skills_agent.skills.packages.address import Address, parse_address
from skills_agent.skills.packages.credentials import without_secrets
from skills_agent.skills.packages.download import Site, shown
from skills_agent.skills.packages.errors import OfferError, PackageError
from skills_agent.skills.packages.git import fetch_tree, file_of, offer_of_tree
from skills_agent.skills.packages.named_places import is_pinned_place, offer_of_named, offer_of_pinned
from skills_agent.skills.packages.offer import Fetch, Listed, Offer, OfferedSkill, Wanted

FILE: Final = ".claude-plugin/marketplace.json"
MAX_BYTES: Final = 4_000_000
MAX_PLUGINS: Final = 500
MAX_FETCHED: Final = 50
"""Plugins that are fetched for one address."""
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+")


class _Source(msgspec.Struct, frozen=True):
    """Where a plugin is, in one of the forms that are no path."""

    source: str
    repo: str = ""
    url: str = ""
    path: str = ""
    ref: str = ""
    sha: str = ""
    sha256: str = ""


class _Plugin(msgspec.Struct, frozen=True):
    name: str
    source: str | _Source
    skills: str | list[str] = []


class _Marketplace(msgspec.Struct, frozen=True):
    plugins: Annotated[list[_Plugin], msgspec.Meta(max_length=MAX_PLUGINS)]


class _Place(NamedTuple):
    address: Address
    resolved: str
    """A commit of the address, or the SHA-256 of its archive; empty for whatever is there."""


def from_marketplace(wanted: Wanted, reach: Fetch) -> Offer:
    """Offer the skills of the plugins that a marketplace at a URL lists. Raises PackageError."""
    if wanted.resolved:
        return offer_of_pinned(wanted, ("git", "url"), reach)
    found = Site(wanted.address).read(wanted.address.place, MAX_BYTES)
    if found is None:
        raise OfferError(wanted.address.text, "there is nothing at that URL")
    return _Plugins(found.body, wanted, reach).offer()


def from_repository(wanted: Wanted, reach: Fetch) -> Offer:
    """Offer the skills of a repository; if what is wanted is not in it, those of a marketplace in it.

    Raises PackageError.
    """
    if is_pinned_place(wanted.resolved):
        return offer_of_pinned(wanted, ("git", "url"), reach)
    tree, commit = fetch_tree(wanted)
    try:
        return offer_of_tree(tree, commit, wanted)
    except OfferError:
        listing = None if wanted.address.path or wanted.resolved else file_of(tree, FILE, MAX_BYTES, wanted)
        if listing is None:
            raise
        plugins = _Plugins(listing, wanted, reach)
        if not plugins.elsewhere:
            raise
        return plugins.offer()


class _Plugins:
    def __init__(self, listing: bytes, wanted: Wanted, reach: Fetch) -> None:
        self._wanted, self._reach = wanted, reach
        try:
            plugins = msgspec.convert(json.loads(listing), _Marketplace).plugins
        except (ValueError, RecursionError) as error:
            raise self._refused(f"its list of plugins cannot be read ({shown(str(error))})") from error
        self.elsewhere = [each for each in plugins if not isinstance(each.source, str)]
        """The plugins that are not in the repository of the marketplace."""
        self._plugins = plugins

    def offer(self) -> Offer:
        """Fetch the plugins, and offer their skills that are wanted."""
        if len(self._plugins) > MAX_FETCHED:
            raise self._refused(
                f"it lists more than {MAX_FETCHED} plugins: install from the one that you want"
            )
        skills: dict[str, OfferedSkill] = {}
        faults: list[PackageError] = []
        for number, plugin in enumerate(self._plugins):
            try:
                for skill in self._skills_of(plugin, number, faults):
                    if (twin := skills.setdefault(skill.name, skill)).digest != skill.digest:
                        raise self._refused(f"two of its plugins have a skill {twin.name}, which differ")
            except PackageError as error:
                faults.append(error)
        if not self._wanted.names:
            self._wanted.pass_over(faults, skills)
        listed = [_listed(skills[name]) for name in sorted(skills)]
        names = self._wanted.among(listed).names
        missing = sorted(names - skills.keys())
        if faults and missing:
            raise faults[0]
        if missing:
            offered = list_names(sorted(skills)) if skills else "none"
            raise self._refused(f"there is no {missing[0]} in its plugins: they have {offered}")
        return Offer(self._wanted.address, tuple(skills[each] for each in sorted(names or skills)))

    def _skills_of(self, plugin: _Plugin, number: int, faults: list[PackageError]) -> Iterator[OfferedSkill]:
        address, resolved = self._place(plugin)
        inner = self._wanted._replace(names=frozenset(), skip=faults.append)
        offer = offer_of_named(address, inner, number, self._reach)
        below = self._chosen(plugin, address, offer)
        for each in offer.skills:
            if below and not any(f"/{each.path}/".find(f"/{path}/") >= 0 for path in below):
                continue
            if resolved and each.archive != resolved:
                raise self._refused(f"the archive of {shown(plugin.name)} is not what its sha256 says")
            yield each._replace(resolved=f"{each.resolved}#sha256={resolved}") if resolved else each

    def _chosen(self, plugin: _Plugin, address: Address, offer: Offer) -> list[str]:
        """Return the folders of a plugin that hold its skills; none: all that it has."""
        paths = [plugin.skills] if isinstance(plugin.skills, str) else plugin.skills
        chosen = [posixpath.normpath(posixpath.join(address.path, each)) for each in paths]
        usual = posixpath.join(address.path, "skills")
        if any(f"/{each.path}/".find(f"/{usual}/") >= 0 for each in offer.skills):
            chosen.append(usual)
        return [] if "." in chosen else chosen

    def _place(self, plugin: _Plugin) -> _Place:
        name, source = shown(plugin.name), plugin.source
        if not isinstance(source, str) and without_secrets(source.url) != source.url:
            raise self._refused(f"the url of {name} has a user or a password in it")
        if isinstance(source, str):
            raise self._refused(
                f"{name} is in the repository of the marketplace: install from that (owner/repo)"
            )
        if source.sha and not _SHA.fullmatch(source.sha):
            raise self._refused(f"the sha of {name} is no commit")
        ref = source.sha or source.ref
        match source.source:
            case "github" if _REPOSITORY.fullmatch(source.repo):
                return _Place(self._git(f"https://github.com/{source.repo}.git", ref, ""), "")
            case "url" | "git-subdir" if source.url:
                return _Place(self._git(source.url, ref, source.path), "")
            case "archive" if source.url:
                if source.sha256 and not _SHA256.fullmatch(source.sha256):
                    raise self._refused(f"the sha256 of {name} is none")
                return _Place(Address(shown(source.url), "url", source.url), source.sha256)
            case "npm" | "command" as kind:
                raise self._refused(f"{name} comes by {kind}, which would run a program: it is not installed")
        raise self._refused(f"where {name} comes from cannot be read ({shown(source.source)})")

    def _git(self, url: str, ref: str, path: str) -> Address:
        text = url if "://" not in url or url.startswith(("ssh://", "git+")) else f"git+{url}"
        if any(each in url for each in "#\\ ") or "@" in url.rpartition("/")[2]:
            raise self._refused(f"{shown(url)} is no repository")
        tail = f"{ref}:{path}" if path else ref
        address = parse_address(f"{text}#{tail}" if tail else text, Path("/"))
        if address.kind != "git" or address.place.startswith("file:"):
            raise self._refused(f"{shown(url)} is no repository that it may name")
        return address

    def _refused(self, reason: str) -> OfferError:
        return OfferError(self._wanted.address.text, reason)


def _listed(skill: OfferedSkill) -> Listed:
    metadata: Any = skill.metadata
    if metadata is None:
        return Listed(skill.name)
    return Listed(skill.name, metadata.description, metadata.version or "", tuple(metadata.requires or ()))
