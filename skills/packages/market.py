"""The operator's market: one index file of the skills that there are for these people, with their versions.

    {"version": 1, "skills": [
      {"name": "csv-report", "version": "1.3.0", "source": "acme/skills/csv-report@v1.3.0",
       "digest": "8de44c...", "description": "...", "keywords": ["csv", "tables"]}]}

An entry is one version of one skill. `source` is what `skills install` takes: a repository, an archive's URL,
and for an index on this machine also a folder or a file, relative to it. `digest` is that of the skill, as in
a lock. `yanked` entries are installed by nobody who does not name that version by `==`. There is no market
but the one of the setting `market`: a name is never looked up elsewhere.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from skills_agent.skills.errors import list_names
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.packages.address import Address, Kind, parse_address
from skills_agent.skills.packages.credentials import without_secrets
from skills_agent.skills.packages.download import Site, shown
from skills_agent.skills.packages.errors import AddressError, OfferError
from skills_agent.skills.packages.named_places import offer_of_named, offer_of_pinned
from skills_agent.skills.packages.offer import Fetch, Offer, OfferedSkill, Wanted

MAX_BYTES: Final = 16_000_000
MAX_ENTRIES: Final = 20_000
_SHOWN_VERSIONS: Final = 5
_AFAR: Final[tuple[Kind, ...]] = ("git", "url")
_NEAR: Final[tuple[Kind, ...]] = ("git", "url", "folder", "archive")


class MarketEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one skill. What an index holds beyond that is for others."""

    name: str
    version: str
    source: str
    digest: Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{64})?\Z")] = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    yanked: bool = False

    @property
    def parsed(self) -> Version:
        """Return the version, to be compared."""
        return Version(self.version)


class _File(msgspec.Struct, frozen=True):
    version: int
    skills: Annotated[list[MarketEntry], msgspec.Meta(max_length=MAX_ENTRIES)]


class Market(NamedTuple):
    """An index that was read."""

    place: str
    """The file, or the URL, without secrets."""
    entries: tuple[MarketEntry, ...]
    """By name, the newest version first."""

    def search(self, query: str) -> list[MarketEntry]:
        """Return the newest version of each skill that has all words of a query, first those named so."""
        words = query.casefold().split()
        ranked = []
        for entry in self.newest():
            name, keywords = entry.name.casefold(), " ".join(entry.keywords).casefold()
            text = f"{name} {keywords} {entry.description.casefold()}"
            if all(word in text for word in words):
                hits = (sum(word in name for word in words), sum(word in keywords for word in words))
                ranked.append((name != query.casefold(), -hits[0], -hits[1], entry.name, entry))
        return [entry for *_, entry in sorted(ranked, key=lambda each: each[:4])]

    def newest(self) -> list[MarketEntry]:
        """Return the newest version of each skill, no pre-release where there is another, by name."""
        newest: dict[str, MarketEntry] = {}
        for entry in self.entries:
            before = newest.get(entry.name)
            if not entry.yanked and (
                before is None or (before.parsed.is_prerelease and not entry.parsed.is_prerelease)
            ):
                newest[entry.name] = entry
        return list(newest.values())

    def best(self, address: Address) -> MarketEntry:
        """Return the newest version that will do (PEP 440). Raises OfferError and AddressError."""
        try:
            wanted = SpecifierSet(address.ref)
        except InvalidSpecifier as error:
            raise AddressError(
                address.text, "its versions are not as in PEP 440: write name>=1.2,<2"
            ) from error
        versions = [each for each in self.entries if each.name == address.place]
        if not versions:
            raise OfferError(
                address.text, f"there is no {address.place} in {self.place}{self._near(address.place)}"
            )
        is_exact = any(each.operator in {"==", "==="} for each in wanted)
        open_ones = [each for each in versions if is_exact or not each.yanked]
        fitting = set(map(str, wanted.filter(each.version for each in open_ones)))
        best = next((each for each in open_ones if each.version in fitting), None)
        if best is None:
            there = list_names([each.version for each in versions[:_SHOWN_VERSIONS]])
            raise OfferError(
                address.text, f"no version of {address.place} in {self.place} will do: it has {there}"
            )
        return best

    def _near(self, name: str) -> str:
        near = get_close_matches(name, {each.name for each in self.entries}, n=1)
        return f"; did you mean {near[0]}?" if near else ""


def read_market(place: str) -> Market:
    """Read the index at a file's absolute path or a URL. Raises OfferError."""
    name = without_secrets(place)
    try:
        raw = _read(place, name)
        file = msgspec.convert(json.loads(raw), _File)
        if file.version != 1:
            raise OfferError(
                name, "it is a market of a version that is unknown here; a newer skills-agent may know it"
            )
        for each in file.skills:
            if not is_spec_name(each.name):
                raise OfferError(name, f"it lists {shown(each.name)}, which is no name of a skill")
        entries = sorted(file.skills, key=lambda each: each.parsed, reverse=True)
    except InvalidVersion as error:
        raise OfferError(name, f"it lists a version that is none by PEP 440 ({shown(str(error))})") from error
    except (ValueError, RecursionError) as error:
        raise OfferError(name, f"the market cannot be read ({shown(str(error))})") from error
    listed = [(each.name, each.parsed) for each in entries]
    if twice := next(
        (one for one, other in zip(sorted(listed), sorted(listed)[1:], strict=False) if one == other), None
    ):
        raise OfferError(name, f"it lists {twice[0]} {twice[1]} twice")
    return Market(name, tuple(sorted(entries, key=lambda each: each.name)))


def from_market(wanted: Wanted, reach: Fetch) -> Offer:
    """Offer the skill of a name, in the newest version that will do, from where the market says.

    What is there has to have the name, the version and the digest that the market says. Raises PackageError.
    """
    address = wanted.address
    if not wanted.market:
        reason = (
            f"there is no folder {address.place} here, and no market to look in: set the setting market, "
            "or write ./folder, owner/repo or a URL"
        )
        raise OfferError(address.text, reason)
    is_near = not wanted.market.startswith(("https://", "http://"))
    kinds = _NEAR if is_near else _AFAR
    named = wanted._replace(address=replace(address, typed=wanted.market), names=frozenset({address.place}))
    if wanted.names - {address.place}:
        raise OfferError(address.text, f"it is the skill {address.place}, and no other one")
    if wanted.resolved:
        return offer_of_pinned(named, kinds, reach)
    entry = read_market(wanted.market).best(address)
    source = _source(entry, wanted, kinds, is_near=is_near)
    offer = offer_of_named(source, named, 0, reach)
    [skill] = offer.skills
    _check(entry, skill, wanted)
    return offer


def _source(entry: MarketEntry, wanted: Wanted, kinds: Sequence[Kind], *, is_near: bool) -> Address:
    base = Path(wanted.market).parent if is_near else Path("/nowhere")
    package = f"{wanted.address.text}, in the market {entry.name} {entry.version},"
    if without_secrets(entry.source) != entry.source:
        raise OfferError(package, "its source has a user or a password in it")
    source = parse_address(entry.source, base)
    if source.kind not in kinds or (not is_near and source.place.startswith("file:")):
        raise OfferError(package, f"its source {shown(entry.source)} is none that this market may name")
    return source


def _check(entry: MarketEntry, skill: OfferedSkill, wanted: Wanted) -> None:
    package = wanted.address.text
    if entry.digest and skill.digest != entry.digest:
        said, found = entry.digest[:12], skill.digest[:12]
        raise OfferError(
            package, f"the market says digest {said}, and what is at {shown(entry.source)} has {found}"
        )
    version = skill.metadata.version if skill.metadata else None
    if version and _normal(version) != entry.parsed:
        there = f"what is at {shown(entry.source)} says {shown(version)}"
        raise OfferError(package, f"the market says version {entry.version}, and {there}")


def _normal(version: str) -> Version | None:
    try:
        return Version(version)
    except InvalidVersion:
        return None


def _read(place: str, name: str) -> bytes:
    if place.startswith(("https://", "http://")):
        found = Site(Address(name, "market", place, typed=place)).read(place, MAX_BYTES)
        if found is None:
            raise OfferError(name, "there is no market at that URL")
        return found.body
    try:
        with Path(place).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise OfferError(name, f"the market cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_BYTES:
        raise OfferError(name, f"the market has more than {MAX_BYTES:,} bytes")
    return raw
