"""What the package.json of a skill says about Node packages, and what a list that npm resolved may hold.

Of package.json only names and versions of `dependencies` are taken. Where packages come from is the person's
to say: nothing else of a skill is read, neither its lock file nor its .npmrc.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from skills_agent.needs.declared import MAX_NEEDS, need_of
from skills_agent.needs.packages import InstallError
from skills_agent.skills.skill import Need

_RANGE: Final = re.compile(
    r"(?:(?:[~^]|[<>]=?|=)?\s*v?(?:\d+|[xX*])(?:\.(?:\d+|[xX*])){0,2}(?:[-+][\w.+-]+)?)"
    r"(?:\s*\|\|\s*|\s+-\s+|\s+|\Z)",
    re.ASCII,
)
_TAG: Final = re.compile(r"[A-Za-z][A-Za-z-]{0,40}")
_ARCHIVE: Final = re.compile(r"\.(?:tgz|tar|tar\.gz)\Z", re.IGNORECASE)
_PLACE: Final = re.compile(r"node_modules/(?:@[\w.~-]+/)?[\w~-][\w.~-]*", re.ASCII)
_INTEGRITY: Final = re.compile(r"sha(?:256|384|512)-[A-Za-z0-9+/]+={0,2}(?:\?\S*)?")
_LINKS: Final = ("dependencies", "optionalDependencies")
_KEPT: Final = (
    *("name", "version", "integrity", "inBundle", "hasInstallScript", "bin", *_LINKS),
    *("peerDependencies", "peerDependenciesMeta", "optional", "peer", "os", "cpu", "libc", "engines"),
)
"""Fields of a lock file's entry that installing needs."""


def package_needs(text: str, path: str) -> Iterator[Need]:
    """Yield the needs of a package.json; one by an address keeps it, and no registry is asked for it."""
    dependencies = _object(text).get("dependencies")
    for name, version in islice(dependencies.items() if isinstance(dependencies, dict) else (), MAX_NEEDS):
        if not (need := need_of("node", name, path)):
            continue
        wanted = version.strip() if isinstance(version, str) else ""
        if is_version(wanted):
            yield Need("node", need.name, wanted, said=path)
        else:
            yield Need("node", need.name, address=wanted[:200] or "?", said=path)


def node_package(text: str, said: str) -> Need | None:
    """Return the need that `name` or `name@version` means; None for what npm would not ask a registry for."""
    name, at, version = text.rpartition("@")
    plain, version = (name, version) if at and name else (text, "")
    need = need_of("node", plain, said)
    return Need("node", need.name, version, said=said) if need and is_version(version) else None


def is_version(text: str) -> bool:
    """Return whether npm takes a text for a version, a range or a tag, and asks a registry for it."""
    if not text or (len(text) <= 100 and _TAG.fullmatch(text)):
        return True
    if len(text) > 100 or _ARCHIVE.search(text):  # npm takes an archive for a file
        return False
    place = 0
    while place < len(text) and (match := _RANGE.match(text, place)):
        place = match.end()
    return place == len(text)


def canonical_lock(text: str) -> str:
    """Return a lock file that npm wrote with only what installing needs, always in the same order.

    Raises InstallError where it leads elsewhere than to the registry of this user, or has no hash.
    """
    entries = _object(text).get("packages")
    if not isinstance(entries, dict):
        raise InstallError("resolved", "npm wrote no list of packages.")
    lock = {"name": "skill", "lockfileVersion": 3, "requires": True, "packages": _taken(entries)}
    return json.dumps(lock, indent=1, sort_keys=True)


def _taken(entries: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    taken = {}
    for place, entry in entries.items():
        if not isinstance(entry, dict) or (place and not _is_place(place)):
            raise InstallError(
                "resolved", f"the list of packages has an entry {place[:100]!r}, which is no package."
            )
        named = place.rpartition("node_modules/")[2]
        if resolved := entry.get("resolved") or (entry.get("link") and "a link"):
            raise InstallError("resolved", _elsewhere(named, str(resolved)))
        for name, version in ((name, each) for link in _LINKS for name, each in _items(entry.get(link))):
            if not is_version(_without_alias(version)):
                raise InstallError("resolved", _elsewhere(f"{name}, for {named or 'the skill'},", version))
        if place and not entry.get("inBundle") and not _INTEGRITY.fullmatch(str(entry.get("integrity"))):
            raise InstallError("resolved", f"there is no hash of {named} {entry.get('version', '')}.")
        if place and not isinstance(entry.get("version"), str):
            raise InstallError("resolved", f"there is no version of {named}.")
        taken[place] = {name: entry[name] for name in _KEPT if name in entry}
    return taken


def _elsewhere(name: str, address: str) -> str:
    parts = urlsplit(address)
    where = parts.hostname or address[:100]
    return f"npm takes {name} from {where}, which is not this user's registry."


def _without_alias(version: Any) -> str:
    """Return the version of `npm:other@^2`: another name for a package of the registry."""
    if not isinstance(version, str):
        return "/"
    name, at, rest = version.removeprefix("npm:").rpartition("@")
    return rest if version.startswith("npm:") and at and need_of("node", name, "") else version


def _is_place(place: str) -> bool:
    return all(map(_PLACE.fullmatch, place.replace("/node_modules/", "\0node_modules/").split("\0")))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, dict) else ()


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
