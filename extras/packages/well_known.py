"""Skills of a site that lists them: Agent Skills discovery, draft 0.2.0.

`.well-known/agent-skills/index.json`: each skill of it is one SKILL.md or one archive, with a digest.
Source: github.com/cloudflare/agent-skills-discovery-rfc.

A site is asked at the path that was typed alone: `https://host/team` has nothing of `https://host`.
"""

import re
from typing import Annotated, Any, Final, Literal

import msgspec

from skills_agent.packages.archive import ARCHIVE_HEADS, from_archive
from skills_agent.packages.download import Site
from skills_agent.packages.errors import shown
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.packages.staging import stage
from skills_agent.skills.errors import list_names
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.sources.walk import SKILL_FILE

SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
MAX_INDEX: Final = 4_000_000
MAX_ENTRIES: Final = 2_000
MAX_FETCHED: Final = 100
"""Skills that are fetched without being named."""
_INDEX: Final = "/.well-known/agent-skills/index.json"
_PINNED: Final = re.compile(r"(?P<url>https?://[^#]+)#sha256=(?P<digest>[0-9a-f]{64})")


class _IndexEntry(msgspec.Struct, frozen=True):
    """A skill of an index. What it holds beyond that is for others."""

    name: str
    type: Literal["skill-md", "archive"]
    url: str
    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]


def from_well_known(wanted: Selection) -> tuple[OfferedSkill, ...]:
    """Offer the skills that a site lists. Raises PackageError."""
    site = Site(wanted.address)
    if pinned := _PINNED.fullmatch(wanted.resolved):
        name, *others = sorted(wanted.names)
        if others:
            raise site.refused(f"it has one skill, and not {list_names(sorted(wanted.names))}")
        return (_fetched(site, wanted, name, pinned["url"], pinned["digest"]),)
    url, entries = _index(site, wanted)
    if not wanted.names and len(entries) > MAX_FETCHED:
        raise site.refused(f"it lists {len(entries):,} skills: name those that you want (--skill)")

    def copy(name: str) -> OfferedSkill:
        entry = entries[name]
        place = str(site.parsed(entry.url, url))
        return _fetched(site, wanted, name, place, entry.digest.removeprefix("sha256:"))

    return wanted.take(dict.fromkeys(sorted(entries)), copy)


def _index(site: Site, wanted: Selection) -> tuple[str, dict[str, _IndexEntry]]:
    """Return where the list is, and what it has by name."""
    place = wanted.address.place.partition("#")[0].partition("?")[0].rstrip("/")
    place = place if place.endswith("/index.json") else place + _INDEX
    found = site.read(place, MAX_INDEX)
    if found is None:
        raise site.refused(f"there is no list of skills: nothing is at {place}")
    url, body = found
    try:
        listed = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise site.refused(f"{url} lists no skills as it is known here ({shown(str(error))})") from error
    skills = listed.get("skills")
    if listed.get("$schema") != SCHEMA or not isinstance(skills, list) or len(skills) > MAX_ENTRIES:
        raise site.refused(f"{url} lists no skills as it is known here ({SCHEMA}, at most {MAX_ENTRIES:,})")
    entries: dict[str, _IndexEntry] = {}
    faults: list[str] = []
    for skill in skills:
        try:
            entry = msgspec.convert(skill, _IndexEntry)
        except msgspec.ValidationError as error:
            faults.append(f"{url} has an entry that cannot be read ({shown(str(error))})")
            continue
        if not is_spec_name(entry.name):
            faults.append(f"{url} lists {shown(entry.name)}, which is no name of a skill")
        elif entries.setdefault(entry.name, entry) is not entry:
            raise site.refused(f"{url} lists {entry.name} twice")
    if not wanted.names:
        wanted.pass_over(map(site.refused, faults), entries)
    if not entries:
        raise site.refused(f"{url} lists no skills")
    return url, entries


def _fetched(site: Site, wanted: Selection, name: str, url: str, digest: str) -> OfferedSkill:
    """Fetch one SKILL.md or one archive; which of them, its first bytes say."""
    into = wanted.into / name
    into.mkdir()
    inner = Selection(wanted.address, into, limits=wanted.limits)
    file = into / "download"
    found = site.save(url, file, wanted.limits.max_bytes)
    if found != digest:
        reason = f"{shown(url)} is not what its digest says: it has {found[:12]} instead of {digest[:12]}"
        raise site.refused(reason)
    with file.open("rb") as opened:
        is_archive = opened.read(4).startswith(ARCHIVE_HEADS)
    if is_archive:
        first, *others = from_archive(file, inner)
    else:
        folder = into / "tree" / name
        folder.mkdir(parents=True)
        file.rename(folder / SKILL_FILE)
        first, *others = (each._replace(path="") for each in stage(into / "tree", inner))
    if others or first.name != name:
        held = list_names([first.name, *(other.name for other in others)])
        raise site.refused(f"its list says {name}, and what is there holds {held}")
    return first._replace(resolved=f"{url}#sha256={digest}")
