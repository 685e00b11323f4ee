"""The files beside a SKILL.md: what they are, how they are summed up, and parts of them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, get_args

from skills_agent.skills.skill import Resource, ResourceListing, ResourceType

MAX_LISTED: Final = 200
_TYPES: Final = MappingProxyType[str, ResourceType](
    {
        "scripts": "script",
        "script": "script",
        "references": "reference",
        "reference": "reference",
        "resources": "reference",
        "examples": "reference",
        "assets": "asset",
        "templates": "asset",
        "template": "asset",
    }
)  # the folders of the specification, and how they are spelled in the wild
_PLURALS: Final = MappingProxyType(
    {"script": "scripts", "reference": "references", "asset": "assets", "other": "other files"}
)
_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<title>.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"[ ]{0,3}(?P<fence>`{3,}|~{3,})")


def resource_type(path: str) -> ResourceType:
    """Tell what a file is by the first folder of its path."""
    folder, slash, _ = path.partition("/")
    return _TYPES.get(folder.lower(), "other") if slash else "other"


def list_resources(files: Iterable[tuple[str, int]], limit: int = MAX_LISTED) -> ResourceListing:
    """List files, given as path and size in bytes, in path order.

    Of too many, those of no known type are left out first.
    """
    resources = [Resource(path, resource_type(path), size) for path, size in files]
    ranks = get_args(ResourceType)
    first = sorted(resources, key=lambda resource: (ranks.index(resource.type), resource.path))[:limit]
    first.sort(key=lambda resource: resource.path)
    return ResourceListing(tuple(first), omitted=len(resources) - len(first))


def relative_to(roots: Iterable[Path], path: str) -> str:
    """Return a path within a skill's folder, also when it was given as the absolute path of a file in it."""
    for root in roots:
        path = path.removeprefix(f"{root}/")
    return path


def summarize(resources: Sequence[Resource]) -> str:
    """Sum up as people say it: `2 scripts, 1 reference`; `no resources` when there are none."""
    counts = Counter(resource.type for resource in resources)
    parts = [_counted(counts[kind], kind) for kind in get_args(ResourceType) if counts[kind]]
    return ", ".join(parts) or "no resources"


def _counted(count: int, kind: str) -> str:
    if count == 1:
        return f"1 {kind}" if kind != "other" else "1 other file"
    return f"{count} {_PLURALS[kind]}"


class Heading(NamedTuple):
    """A Markdown heading outside of code."""

    line: int
    """From 0."""
    level: int
    title: str


def heading_lines(text: str) -> list[Heading]:
    """Return the headings of a Markdown text with their lines, in order."""
    return _headings(text.split("\n"))


def sections_of(text: str) -> list[str]:
    """Return the headings of a Markdown text in order."""
    return [heading.title for heading in heading_lines(text)]


def section_of(text: str, heading: str) -> str | None:
    """Return the section under a heading, with its subsections; None when there is no such heading.

    Case, `#` marks and blanks around the heading do not matter.
    """
    lines = text.split("\n")
    headings = _headings(lines)
    wanted = heading.strip().lstrip("#").strip().casefold()
    for number, found in enumerate(headings):
        if found.title.casefold() == wanted:
            following = (later.line for later in headings[number + 1 :] if later.level <= found.level)
            return "\n".join(lines[found.line : next(following, len(lines))]).rstrip("\n")
    return None


def lines_of(text: str, start: int, count: int) -> str:
    """Return `count` lines from line `start` (1-based)."""
    first = max(start, 1) - 1
    return "\n".join(text.split("\n")[first : first + max(count, 0)])


def _headings(lines: Sequence[str]) -> list[Heading]:
    headings: list[Heading] = []
    fence = ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark["fence"].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark["fence"]
        elif found := _HEADING.match(line):
            headings.append(Heading(number, len(found["marks"]), found["title"]))
    return headings
