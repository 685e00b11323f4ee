"""What a person has to know of a skill before saying yes, read from the copy that would be installed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from skills_agent.graph.needs import gather_now
from skills_agent.packages.difference import FileDifference, differences
from skills_agent.packages.offer import OfferedSkill
from skills_agent.packages.required import RequiredSkill
from skills_agent.packages.scan import ScanFinding, ScannedFile, near_name, scan
from skills_agent.packages.staging import files_of
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.format.lint import MAX_FILE_BYTES, is_program
from skills_agent.skills.library.contents import (
    ContentLimits,
    Member,
    SnapshotError,
    list_contents,
    read_digests,
    resource_type,
)
from skills_agent.skills.scripts.interpreter import KNOWN, candidates_for, names_of
from skills_agent.skills.skill import Need
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line

_ANY_SIZE: Final = ContentLimits(1 << 62, 1 << 31)
"""The copy was made within the limits."""
_SEARCHED: Final = 64_000_000
"""Bytes of all files of a skill that are searched."""
_BINARY: Final = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa", b"\xca\xfe\xba\xbe", b"\0asm")


class Script(msgspec.Struct, frozen=True):
    """A file of a skill that can be run."""

    path: str
    programs: tuple[str, ...]
    """What runs it, the best first; empty where nothing says what would."""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What would be installed, and what it is."""

    name: str
    change: str
    """new, update or same."""
    description: str
    version: str
    version_before: str = ""
    source: str
    """The address."""
    path: str
    """Of the skill's folder in it."""
    resolved: str
    digest: str
    archive: str = ""
    files: int
    bytes: int
    scripts: tuple[Script, ...]
    allowed_tools: tuple[str, ...] | None
    """None where it declares nothing."""
    disallowed_tools: tuple[str, ...]
    needs: tuple[Need, ...]
    requires: tuple[RequiredSkill, ...] = ()
    findings: tuple[ScanFinding, ...]
    difference: tuple[FileDifference, ...] = ()
    signature: str = ""
    """Who signed it, or why nobody did that counts."""
    obstacle: str = ""
    """Why it is not installed without --force."""

    @property
    def warnings(self) -> tuple[ScanFinding, ...]:
        """Return the findings to look at."""
        return tuple(each for each in self.findings if each.level == "warning")


class Origin(NamedTuple):
    """Where a skill is from, and in whose place it would be."""

    source: str
    resolved: str
    archive: str = ""
    change: str = "new"
    version_before: str = ""
    obstacle: str = ""
    signature: str = ""


def review(
    skill: OfferedSkill,
    origin: Origin,
    old: Path | None = None,
    known: Mapping[str, str] = {},
    requires: tuple[RequiredSkill, ...] = (),
) -> Review:
    """Return what there is to know of a skill.

    `old` is the folder that it would replace, and `known` other skills by name, with where they are.
    """
    members = list_contents(skill.folder, _ANY_SIZE)
    said = skill.metadata
    findings = scan(_texts(skill.folder, members))
    own = said.name if said else skill.name
    near = near_name(own, known)
    odd = [*([near] if near else ()), *_unsearched(skill.folder, members)]
    if own != skill.name:
        message = f"Is named {cut(visible_line(own), 80)}, and goes into a folder of another name"
        odd.append(ScanFinding("SKILL.md", "name", "info", message))
    return Review(
        name=skill.name,
        change=origin.change,
        description=said.description if said else "",
        version=(said.version or "") if said else "",
        version_before=origin.version_before,
        source=origin.source,
        path=skill.path,
        resolved=origin.resolved,
        digest=skill.digest,
        archive=origin.archive,
        files=len(members),
        bytes=sum(each.status.st_size for each in members if each.kind != "link"),
        scripts=tuple(_scripts(skill.folder, members)),
        allowed_tools=said.allowed_tools if said else None,
        disallowed_tools=said.disallowed_tools if said else (),
        needs=gather_now(skill.folder, "SKILL.md"),
        requires=requires,
        findings=tuple(sorted((*odd, *findings), key=lambda each: each.level != "warning")),
        difference=_difference(old, skill) if origin.change == "update" and old is not None else (),
        signature=origin.signature,
        obstacle=origin.obstacle,
    )


def _difference(old: Path, skill: OfferedSkill) -> tuple[FileDifference, ...]:
    try:
        files = files_of(list(read_digests(old, list_contents(old, _ANY_SIZE))))
    except (
        SnapshotError
    ) as error:  # it is no folder, or has files that cannot be read: it is put aside as a whole
        return (FileDifference(".", "removed", said=error.reason),)
    return differences(old, files, skill.folder, skill.files)


def _scripts(folder: Path, members: list[Member]) -> Iterator[Script]:
    for member in members:
        suffix = Path(member.path).suffix.lower()
        by_name = suffix == ".py" or suffix in KNOWN
        in_place = resource_type(member.path) == "script" and not suffix
        if member.kind == "link" or not (by_name or in_place or member.kind == "exec"):
            continue
        try:
            programs = tuple(names_of(candidates_for(folder / member.path)))
        except ScriptError:
            programs = ()
        if programs or member.kind == "exec":
            yield Script(member.path, programs)


def _texts(folder: Path, members: list[Member]) -> Iterator[ScannedFile]:
    for member in _searched(members):
        raw = read_beneath(folder, member.path, MAX_FILE_BYTES, follow=False)
        if b"\0" not in raw:
            text = raw.decode("utf-8", "replace")
            yield ScannedFile(member.path, text, "program" if is_program(member) else "prose")


def _searched(members: list[Member]) -> Iterator[Member]:
    left = _SEARCHED
    for member in members:
        size = member.status.st_size
        if member.kind != "link" and size <= min(MAX_FILE_BYTES, left):
            left -= size
            yield member


def _unsearched(folder: Path, members: list[Member]) -> Iterator[ScanFinding]:
    """Yield what no search for words can tell anything of."""
    searched = {each.path for each in _searched(members)}
    for member in members:
        if member.kind == "link":
            continue
        if read_beneath(folder, member.path, 4, follow=False).startswith(_BINARY):
            yield ScanFinding(
                member.path, "binary", "warning", "Is a program in machine code, which nobody can read"
            )
        elif member.path not in searched:
            size = f"{member.status.st_size:,} bytes"
            yield ScanFinding(member.path, "unread", "info", f"Is too large to be searched ({size})")
