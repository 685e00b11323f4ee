"""From a tree of files to its skills: find the skills in it, and copy each as it is, or not at all."""

import os
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from skills_agent.packages.entries import check_names, name_fault, refused_entry
from skills_agent.packages.errors import EntryError, not_offered, shown
from skills_agent.packages.manifest import (
    MANIFEST_FILE,
    read_manifest,
    read_manifest_file,
)
from skills_agent.packages.offer import OfferedSkill, Selection
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import SkillPath, read_metadata
from skills_agent.skills.format.rules import NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import (
    ContentLimits,
    Member,
    MemberDigest,
    SnapshotError,
    digest_of,
    list_contents,
    pieces_of,
    read_digests,
)
from skills_agent.skills.library.discovery import Discovery
from skills_agent.skills.library.index import SkillReading, Strictness
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import cut
from skills_agent.skills.visible import visible_line

_LABEL: Final = "offer"
_USUAL: Final = ContentLimits()
_MISREAD: Final = frozenset({"name-unsafe", "name-not-text", "invisible-characters"})
"""Rules after whose breach discovery takes another name than the one that is written, or another text."""
_WITHOUT_NAME: Final = frozenset({"name-missing", "frontmatter-made"})
_LARGE_FILE: Final = b"version https://git-lfs.github.com/spec/"


def stage(
    tree: Path, wanted: Selection, resolved: str = "", unwritten: Mapping[str, str] | None = None
) -> tuple[OfferedSkill, ...]:
    """Copy the wanted skills of a tree into the folder that is given for them, by name. Raises PackageError.

    One that cannot be installed keeps out no other, as in discovery (`Selection.skip`), unless it was named.
    A skill in the folder of another one is a part of that. Of two with one name, the same files are one.
    `unwritten` says of paths why they are not in the tree: the skill that one belongs to is refused.
    """
    tree = tree.resolve()  # as discovery names what it finds
    package = wanted.address.text
    every = list(_skills_in(tree, wanted, unwritten or {}))
    found = [each for each in every if not each.fault]
    faults = [
        EntryError(package, shown(each.entry), each.fault)
        for each in every
        if each.fault and (not wanted.names or not wanted.names.isdisjoint({each.name, each.folder.name}))
    ]
    wanted.pass_over(faults, found)
    found.sort(key=attrgetter("name", "folder"))
    listed = {each.name: each.reading.metadata for each in found}

    def copy(name: str) -> OfferedSkill:
        folders = [each.folder for each in found if each.name == name]
        return _only(name, folders, tree, wanted)._replace(resolved=resolved)

    copies = wanted.take(listed, copy)
    if not copies:
        raise not_offered(package, "it has no skill: no folder with a SKILL.md")
    return copies


def copy_skill(folder: Path, target: Path, package: str, limits: ContentLimits) -> list[MemberDigest]:
    """Copy a skill's folder strictly, and return the digests of the copy.

    What is no part of a skill (contents.py) is left out, and the manifest is not. Raises EntryError,
    SnapshotError and OSError.
    """
    members = check_contents(folder, package, limits)
    target.mkdir(parents=True)
    for member in members:
        place = target / member.path
        if not place.parent.is_dir():
            place.parent.mkdir(parents=True)
        if member.kind == "link":
            place.symlink_to(member.link)
            continue
        with place.open("xb") as copy:
            for piece in pieces_of(folder, member):
                if piece.startswith(_LARGE_FILE):
                    raise refused_entry(package, member.path, "it is in Git LFS, which is not fetched")
                copy.write(piece)
            os.fchmod(copy.fileno(), 0o755 if member.kind == "exec" else 0o644)
    if (manifest := read_manifest_file(folder)) is not None:
        (target / MANIFEST_FILE).write_bytes(manifest)
    return digests_of(target, limits)


def digests_of(folder: Path, limits: ContentLimits = _USUAL) -> list[MemberDigest]:
    """Return the digests of a skill's folder as it is. Raises SnapshotError."""
    return list(read_digests(folder, list_contents(folder, limits)))


def check_contents(folder: Path, package: str, limits: ContentLimits) -> list[Member]:
    """List a skill's files and links. Raises SnapshotError, and EntryError for what no digest covers.

    So is a name refused that means something else on another system.
    """
    skipped: list[str] = []
    members = list_contents(folder, limits, skipped)
    check_names(package, (*skipped, *(member.path for member in members)))
    if skipped:
        reason = "it leads out of the skill or back to itself, or is no file and no folder"
        raise refused_entry(package, skipped[0], reason)
    to_folders = [member for member in members if member.kind == "link" and (folder / member.target).is_dir()]
    above = {str(parent) for each in to_folders for parent in PurePosixPath(each.path).parents}
    # A program that follows links would come to no end in some of them.
    if link := next((each.path for each in to_folders if each.target in above), ""):
        raise refused_entry(package, link, "it is a link to a folder that has such links, or that it lies in")
    return members


def files_of(digests: list[MemberDigest]) -> dict[str, str]:
    """Return digests of files as a lock has them."""
    return {path: digest if kind == "file" else f"{digest} {kind}" for path, kind, digest in digests}


def metadata_of(copy: Path) -> SkillMetadata | None:
    """Return what the SKILL.md of a copy says; None for one that cannot be read. Raises OSError."""
    head = read_beneath(copy, SKILL_FILE, HEAD_BYTES)
    return read_metadata(head, SkillPath(_LABEL, str(copy / SKILL_FILE), copy.name, trusted=False)).metadata


class _StagedSkill(NamedTuple):
    name: str
    folder: Path
    entry: str
    """Its SKILL.md in the place, or what else is at fault."""
    fault: str
    """Why it is not installed; empty where it can be."""
    reading: SkillReading


def _skills_in(tree: Path, wanted: Selection, unwritten: Mapping[str, str]) -> Iterator[_StagedSkill]:
    folder = tree / wanted.address.path
    if not folder.is_dir():
        raise not_offered(wanted.address.text, f"there is no folder {wanted.address.path} in it")
    source = DirectorySource(folder, _LABEL, trusted=False, within=folder)
    discovery = Discovery([source], Strictness(), None)
    discovery.scan()
    tops: set[str] = set()
    for skill in sorted(discovery.readings, key=attrgetter("entry.path")):
        place = Path(skill.entry.path).parent
        if any(str(above) in tops for above in place.parents):
            continue
        name = _name(skill, place, folder)
        entry, fault = _relative(Path(skill.entry.path), tree), _fault(skill, name, folder)
        if not fault:  # what is passed over, as an index at the top of a repository, takes nothing with it
            tops.add(str(place))
            lost = (each for each in unwritten if (tree / each).is_relative_to(place))
            entry = next(lost, entry)
        yield _StagedSkill(name, place, entry, fault or unwritten.get(entry, ""), skill)


def _name(skill: SkillReading, place: Path, tree: Path) -> str:
    """Return the name to install it under: its own, or that of its folder where it is `A Title`."""
    own = skill.metadata.name if skill.metadata is not None else place.name
    is_title = own.isascii() and not is_spec_name(own) and place != tree and is_spec_name(place.name)
    return place.name if is_title else own


def _fault(skill: SkillReading, name: str, tree: Path) -> str:
    """Return why a skill is not installed as it is written; empty for one that is."""
    place = Path(skill.entry.path)
    if skill.metadata is None:
        why = next(
            (diagnostic.message for diagnostic in skill.diagnostics if diagnostic.severity == "error"), ""
        )
        return why.rstrip(".") or "it cannot be read"
    if place.name != SKILL_FILE:
        return f"its name has to be {SKILL_FILE}"
    if not is_spec_name(name):
        return f"its name has to be {NAME_RULE}"
    if reason := name_fault(name):
        return reason
    if place.parent == tree and any(diagnostic.code in _WITHOUT_NAME for diagnostic in skill.diagnostics):
        return "it has no name, and no folder that gives it one"
    misread = next(
        (diagnostic.message for diagnostic in skill.diagnostics if diagnostic.code in _MISREAD), ""
    ).rstrip(".")
    return f"it is not installed under a name that is read otherwise: {misread}" if misread else ""


def _only(name: str, folders: list[Path], tree: Path, wanted: Selection) -> OfferedSkill:
    first, *others = [
        _copied(folder, tree, wanted, wanted.into / "skills" / str(number) / name)
        for number, folder in enumerate(folders)
    ]
    if other := next((each for each in others if each.digest != first.digest), None):
        places = f"{first.path or '.'} and {other.path or '.'}"
        reason = f"{places} in it are both named {name}: name one by its path"
        raise not_offered(wanted.address.text, reason)
    return first


def _copied(folder: Path, tree: Path, wanted: Selection, target: Path) -> OfferedSkill:
    path, package = _relative(folder, tree), wanted.address.text
    try:
        digests = copy_skill(folder, target, package, wanted.limits)
        digest, files = digest_of(digests), files_of(digests)
        if manifest := read_manifest(target):
            manifest.check(target.name, digest, files, target / MANIFEST_FILE)
        metadata = metadata_of(target)
    except (EntryError, SnapshotError) as error:
        inner = getattr(error, "entry", "")
        entry = "/".join(filter(None, (visible_line(path), inner))) or "."
        raise EntryError(package, cut(entry, 240), error.reason) from error
    except OSError as error:
        raise not_offered(package, error.strerror or str(error)) from error
    if metadata is None or (is_spec_name(metadata.name) and metadata.name != target.name):
        raise not_offered(package, f"{path} was changed while it was copied")
    return OfferedSkill(wanted.address, target.name, target, digest, files, path, metadata=metadata)


def _relative(place: Path, tree: Path) -> str:
    relative = place.relative_to(tree).as_posix()
    return "" if relative == "." else relative
