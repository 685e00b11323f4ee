"""What a person has to know of a skill before saying yes, read from the copy that would be installed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from skills_agent.graph.machine import gather_now
from skills_agent.packages.difference import FileDifference, differences
from skills_agent.packages.errors import shown
from skills_agent.packages.installation import Change
from skills_agent.packages.offer import version_of
from skills_agent.packages.required import required_of
from skills_agent.packages.scan import ScanFinding, near_name, scan
from skills_agent.packages.signatures import said as signature_text
from skills_agent.packages.staging import digests_of, files_of
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.errors import ScriptError, list_names
from skills_agent.skills.format.lint import MAX_FILE_BYTES, is_program
from skills_agent.skills.library.contents import (
    ContentLimits,
    Member,
    SnapshotError,
    list_contents,
    resource_type,
)
from skills_agent.skills.scripts.interpreter import KNOWN, candidates_for, names_of
from skills_agent.skills.skill import Need, SkillMetadata
from skills_agent.skills.sources.walk import SKILL_FILE

_ANY_SIZE: Final = ContentLimits(1 << 62, 1 << 31)
"""The copy was made within the limits."""
_SHOWN: Final = 12
"""Of scripts, tools and needs."""
_SEARCHED: Final = 64_000_000
"""Bytes of all files of a skill that are searched."""
_BINARY: Final = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa", b"\xca\xfe\xba\xbe", b"\0asm")


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What would be installed, and what it is."""

    name: str
    change: str
    """new, update or same."""
    description: str
    version: str
    version_before: str
    source: str
    """The address; empty for a proposal."""
    path: str
    """Of the skill's folder in it."""
    resolved: str
    resolved_before: str
    digest: str
    files: int
    bytes: int
    scripts: Mapping[str, str]
    """The program that runs it, by path; empty where nothing says what would."""
    allowed_tools: tuple[str, ...] | None
    """None where it declares nothing."""
    disallowed_tools: tuple[str, ...]
    needs: tuple[Need, ...]
    requires: tuple[str, ...]
    """Each with how it stands, in words."""
    findings: tuple[ScanFinding, ...]
    """Warnings first."""
    difference: tuple[FileDifference, ...]
    signature: str
    """Who signed it, or why nobody did that counts."""
    obstacle: str
    """Why it is not installed without --force."""

    @property
    def facts(self) -> dict[str, str]:
        """Return what it may do and what it takes, by label; empty for nothing."""
        tools = self.allowed_tools
        scripts = [f"{path} ({by or 'nothing says what runs it'})" for path, by in self.scripts.items()]
        return {
            "scripts": list_names(scripts, "", most=_SHOWN),
            "may use": "" if tools is None else list_names(tools, "no tools", most=_SHOWN),
            "refuses": list_names(self.disallowed_tools, "", most=_SHOWN),
            "needs": list_names([need.text for need in self.needs], "", most=_SHOWN),
            "requires": "; ".join(self.requires),
        }


def reviews(
    changes: Sequence[Change], folder: Path, skills: Sequence[SkillMetadata], asked: Collection[str] = ()
) -> Iterator[Review]:
    """Yield what there is to know of each skill that is put into a folder of skills.

    `skills` are those that are here. What was `asked` for is no surprise; if left out, all of it was.
    """
    offered = {change.name: change.put.version for change in changes}
    here = {skill.name: version_of(skill) for skill in skills}
    known = {
        skill.name: "installed" if Path(skill.path).is_relative_to(folder) else skill.source
        for skill in skills
        if skill.name not in offered
    }
    for change in changes:
        said = change.put.metadata
        requires = required_of(said.requires if said else (), offered, here, asked or offered)
        yield _review(change, folder, known, requires)


def _review(change: Change, folder: Path, known: Mapping[str, str], requires: tuple[str, ...]) -> Review:
    """Return what there is to know of a skill; `known` has other ones by name, with where they are."""
    skill, after, before = change.put, change.after, change.before
    members, said = list_contents(skill.folder, _ANY_SIZE), skill.metadata
    return Review(
        name=skill.name,
        change=change.kind,
        description=said.description if said else "",
        version=skill.version,
        version_before=before.version if before else "",
        source=after.source if after else "",
        path=skill.path,
        resolved=after.resolved if after else "",
        resolved_before=before.resolved if before else "",
        digest=skill.digest,
        files=len(members),
        bytes=sum(member.status.st_size for member in members if member.kind != "link"),
        scripts=dict(_scripts(skill.folder, members)),
        allowed_tools=said.allowed_tools if said else None,
        disallowed_tools=said.disallowed_tools if said else (),
        needs=gather_now(skill.folder, SKILL_FILE),
        requires=requires,
        findings=tuple(sorted(_findings(change, members, known), key=lambda each: each.level != "warning")),
        difference=difference_of(change, folder / skill.name) if change.kind == "update" else (),
        signature=signature_text(change.signature),
        obstacle=change.obstacle,
    )


def difference_of(change: Change, old: Path) -> tuple[FileDifference, ...]:
    """Return what differs from the folder in whose place a skill is put, if there is one."""
    before: dict[str, str] = {}
    try:
        if change.found:
            before = files_of(digests_of(old, _ANY_SIZE))
    except SnapshotError as error:  # no folder, or files that cannot be read: it is put aside as a whole
        return (FileDifference(".", "removed", said=error.reason),)
    return differences(old, before, change.put.folder, change.put.files)


def _scripts(folder: Path, members: list[Member]) -> Iterator[tuple[str, str]]:
    for member in members:
        suffix = Path(member.path).suffix.lower()
        by_name = suffix == ".py" or suffix in KNOWN
        in_place = resource_type(member.path) == "script" and not suffix
        if member.kind == "link" or not (by_name or in_place or member.kind == "exec"):
            continue
        try:
            program = next(iter(names_of(candidates_for(folder / member.path))), "")
        except ScriptError:
            program = ""
        if program or member.kind == "exec":
            yield member.path, program


def _findings(change: Change, members: list[Member], known: Mapping[str, str]) -> Iterator[ScanFinding]:
    skill, left = change.put, _SEARCHED
    own = skill.metadata.name if skill.metadata else skill.name
    if near := near_name(own, known):
        yield near
    if own != skill.name:
        message = f"Is named {shown(own, 80)}, and goes into a folder of another name"
        yield ScanFinding(SKILL_FILE, "name", "info", message)
    for member in members:
        path, size = member.path, member.status.st_size
        if member.kind == "link":
            continue
        if size > min(MAX_FILE_BYTES, left):
            yield ScanFinding(path, "unread", "info", f"Is too large to be searched ({size:,} bytes)")
            raw = read_beneath(skill.folder, path, 4, follow=False)
        else:
            left -= size
            raw = read_beneath(skill.folder, path, MAX_FILE_BYTES, follow=False)
            if b"\0" not in raw:
                text = raw.decode("utf-8", "replace")
                yield from scan(path, text, "program" if is_program(member) else "prose")
        if raw.startswith(_BINARY):
            message = "Is a program in machine code, which nobody can read"
            yield ScanFinding(path, "binary", "warning", message)
