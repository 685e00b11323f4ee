"""Skills of a site that lists them: Agent Skills discovery, draft 0.2.0, and 0.1.0 before it.

0.2.0: `.well-known/agent-skills/index.json` with `$schema`; each skill is one SKILL.md or one archive, with
a digest. 0.1.0: `.well-known/skills/index.json` without `$schema`; each skill is a list of files, without
digests. Source: github.com/cloudflare/agent-skills-discovery-rfc, and `npx skills` 1.7.

A site is asked at the path that was typed alone: `https://host/team` has nothing of `https://host`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, urljoin

import msgspec

from skills_agent.packages.archive import offer_of_archive
from skills_agent.packages.credentials import split_credentials, without_secrets
from skills_agent.packages.download import Downloaded, Site, shown
from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import PackageError
from skills_agent.packages.offer import Listed, Offer, OfferedSkill, Wanted
from skills_agent.packages.staging import stage
from skills_agent.packages.tar_archive import GZIP_MAGIC
from skills_agent.packages.zip_archive import ZIP_MAGIC
from skills_agent.skills.errors import list_names
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.sources.walk import SKILL_FILE

SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
MAX_INDEX: Final = 4_000_000
MAX_ENTRIES: Final = 2_000
MAX_FETCHED: Final = 100
"""Skills that are fetched without being named."""
MAX_FILES: Final = 1_000
"""Of one skill that is a list of files: each is a request."""
_ARCHIVE_HEADS: Final = (*ZIP_MAGIC, GZIP_MAGIC)
_FOLDERS: Final = ("agent-skills", "skills")
_DIGEST: Final = re.compile(r"(?:sha256:)?(?P<hex>[0-9a-fA-F]{64})")
_PINNED: Final = re.compile(r"(?P<url>https?://[^#]+)#sha256=(?P<digest>[0-9a-f]{64})")


class _Entry(msgspec.Struct, frozen=True):
    """A skill of an index. What it holds beyond that is for others."""

    name: str
    description: str = ""
    type: str = ""
    url: str = ""
    digest: str = ""
    sha256: str = ""
    files: Annotated[list[Any], msgspec.Meta(max_length=MAX_FILES)] = []


def from_well_known(wanted: Wanted) -> Offer:
    """Offer the skills that a site lists. Raises PackageError."""
    return _WellKnown(wanted).offer()


class _WellKnown:
    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._site = Site(wanted.address)

    def offer(self) -> Offer:
        wanted = self._wanted
        if pinned := _PINNED.fullmatch(wanted.resolved):
            skills = [self._artifact(pinned["url"], pinned["digest"], _one(wanted.names), 0)]
        else:
            skills = self._of_index(*self._index())
        return Offer(wanted.address, tuple(sorted(skills, key=lambda each: each.name)))

    def _index(self) -> tuple[str, dict[str, Any]]:
        places = (
            [self._wanted.resolved] if self._wanted.resolved else list(_places(self._wanted.address.place))
        )
        for place in places:
            found = self._site.read(place, MAX_INDEX)
            if found is not None:
                return found.url, self._parsed(found)
        looked = " and ".join(without_secrets(each) for each in places)
        raise self._site.refused(f"there is no list of skills: nothing is at {looked}")

    def _parsed(self, found: Downloaded) -> dict[str, Any]:
        try:
            index = json.loads(found.body)
        except (ValueError, RecursionError) as error:
            raise self._site.refused(f"{found.url} is no JSON, so it lists no skills") from error
        if not isinstance(index, dict) or not isinstance(index.get("skills"), list):
            raise self._site.refused(f"{found.url} lists no skills")
        schema = index.get("$schema")
        if schema is not None and schema != SCHEMA:
            reason = f"{found.url} is of a format that is unknown here ({shown(str(schema))})"
            raise self._site.refused(f"{reason}; a newer skills-agent may know it")
        if len(index["skills"]) > MAX_ENTRIES:
            raise self._site.refused(f"{found.url} lists more than {MAX_ENTRIES:,} skills")
        return index

    def _of_index(self, url: str, index: dict[str, Any]) -> list[OfferedSkill]:
        entries = self._entries(url, index["skills"])
        listed = [Listed(name, entries[name].description) for name in sorted(entries)]
        names = self._wanted.among(listed).names or entries.keys()
        if missing := sorted(names - entries.keys()):
            offered = f"it has {list_names(sorted(entries))}" if entries else "it has none"
            raise self._site.refused(f"there is no {missing[0]} in its list: {offered}")
        if not names:
            raise self._site.refused(f"{url} lists no skills")
        if len(names) > MAX_FETCHED:
            raise self._site.refused(f"it lists {len(names):,} skills: name those that you want (--skill)")
        reach = self._new if "$schema" in index else self._old
        skills: list[OfferedSkill] = []
        reasons: list[PackageError] = []
        for number, name in enumerate(sorted(names)):
            try:
                skills.append(reach(url, entries[name], number))
            except PackageError as error:
                reasons.append(error)
        self._wanted.pass_over(reasons, skills)
        return skills

    def _entries(self, url: str, listed: list[Any]) -> dict[str, _Entry]:
        entries: dict[str, _Entry] = {}
        faults: list[str] = []
        for each in listed:
            try:
                entry = msgspec.convert(each, _Entry)
            except msgspec.ValidationError as error:
                faults.append(f"{url} has an entry that cannot be read ({error})")
                continue
            if not is_spec_name(entry.name):
                faults.append(f"{url} lists {shown(entry.name)}, which is no name of a skill")
            elif entries.setdefault(entry.name, entry) is not entry:
                raise self._site.refused(f"{url} lists {entry.name} twice")
        if not self._wanted.names:
            self._wanted.pass_over(map(self._site.refused, faults), entries)
        return entries

    def _new(self, index: str, entry: _Entry, number: int) -> OfferedSkill:
        if entry.type not in {"skill-md", "archive"}:
            kind = shown(entry.type) or "nothing"
            raise self._site.refused(f"{entry.name} is of the kind {kind}, which is unknown here")
        digest = self._digest(entry.name, entry.digest or entry.sha256)
        if not entry.url or not digest:
            raise self._site.refused(f"{entry.name} is listed without a url or a digest")
        return self._artifact(self._joined(index, entry.url), digest, entry.name, number)

    def _artifact(self, url: str, digest: str, name: str, number: int) -> OfferedSkill:
        """Fetch one SKILL.md or one archive; which of them, its first bytes say."""
        wanted = self._inner(number)
        file = wanted.into / "download"
        found = self._site.save(url, file, wanted.limits.max_bytes)
        if found != digest:
            reason = f"{shown(url)} is not what its digest says: it has {found[:12]} instead of {digest[:12]}"
            raise self._site.refused(reason)
        with file.open("rb") as opened:
            head = opened.read(4)
        resolved = f"{url}#sha256={digest}"
        if head.startswith(_ARCHIVE_HEADS):
            offer = offer_of_archive(file, wanted)
            return self._checked(offer.skills, name)._replace(resolved=resolved)
        folder = wanted.into / "tree" / (name or "skill")
        folder.mkdir(parents=True)
        file.rename(folder / SKILL_FILE)
        offered = self._checked(stage(wanted.into / "tree", wanted), name)
        return offered._replace(resolved=resolved, path="")

    def _old(self, index: str, entry: _Entry, number: int) -> OfferedSkill:
        """Fetch a skill that is a list of files; their URLs are below the index."""
        wanted = self._inner(number)
        folder = wanted.into / "tree" / entry.name
        names = EntryNames(wanted.address.text)
        left = wanted.limits.max_bytes
        if not entry.files:
            raise self._site.refused(f"{entry.name} is listed without files")
        for path in entry.files:
            if not isinstance(path, str):
                raise self._site.refused(f"the files of {entry.name} cannot be read")
            names.add(path)
            url = urljoin(index, quote(f"{entry.name}/{path}"))
            found = self._site.read(url, left)
            if found is None:
                raise self._site.refused(f"{entry.name} is listed with {shown(path)}, which is not there")
            left -= len(found.body)
            _write(folder / path, found.body)
        offered = self._checked(stage(wanted.into / "tree", wanted), entry.name)
        return offered._replace(path="", resolved=index)

    def _digest(self, name: str, said: object) -> str:
        if not said:
            return ""
        match = _DIGEST.fullmatch(said) if isinstance(said, str) else None
        if match is None:
            raise self._site.refused(f"the digest of {name} is none: {shown(str(said))}")
        return match["hex"].lower()

    def _joined(self, index: str, url: str) -> str:
        try:
            return urljoin(index, url)
        except ValueError as error:
            raise self._site.refused(f"{shown(url)} is no URL") from error

    def _inner(self, number: int) -> Wanted:
        into = self._wanted.into / f"skill-{number}"
        into.mkdir()
        address = self._wanted.address
        return self._wanted._replace(
            into=into, names=frozenset(), resolved="", address=address, choose=None, skip=None
        )

    def _checked(self, skills: Iterable[OfferedSkill], name: str) -> OfferedSkill:
        first, *others = skills
        if others or (name and first.name != name):
            held = list_names([first.name, *(each.name for each in others)])
            raise self._site.refused(f"its list says {name or 'one skill'}, and what is there holds {held}")
        return first


def _one(names: Iterable[str]) -> str:
    only = list(names)
    return only[0] if len(only) == 1 else ""


def _places(place: str) -> Iterator[str]:
    """Yield where the index of a site may be."""
    url = split_credentials(place).url.partition("#")[0].partition("?")[0]
    if url.endswith("/index.json"):
        yield url
        return
    for folder in _FOLDERS:
        yield f"{url.rstrip('/')}/.well-known/{folder}/index.json"


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("xb") as copy:
        copy.write(content)
