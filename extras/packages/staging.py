"""From a tree of files to an offer: find the skills in it, and copy each as it is, or not at all."""

import os
import stat
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import EntryError, OfferError, PackageError
from skills_agent.packages.link_circles import ENDLESS, link_in_circle
from skills_agent.packages.manifest import (
    MANIFEST_FILE,
    read_manifest,
    read_manifest_file,
)
from skills_agent.packages.offer import Listed, OfferedSkill, Wanted
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.errors import list_names
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.reading import Place, read_metadata
from skills_agent.skills.format.rules import NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import (
    LEFT_OUT,
    ContentLimits,
    MemberDigest,
    SnapshotError,
    digest_of,
    is_endless,
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
from skills_agent.skills.trees import walk
from skills_agent.skills.visible import visible_line

_LABEL: Final = "offer"
_MISREAD: Final = frozenset({"name-unsafe", "name-not-text", "invisible-characters"})
"""Rules after whose breach discovery takes another name than the one that is written, or another text."""
_WITHOUT_NAME: Final = frozenset({"name-missing", "frontmatter-made"})
_SHOWN: Final = 120
"""Characters of a name in an error."""
COPIES: Final = "skills"
"""The folder of the copies in that of an offer."""


def stage(tree: Path, wanted: Wanted, *, is_ours: bool = False) -> tuple[OfferedSkill, ...]:
    """Copy the wanted skills of a tree into the folder of the offer, by name. Raises PackageError.

    One that cannot be installed keeps out no other, as in discovery (`Wanted.skip`), unless it was named. A
    skill in the folder of another one is a part of that. Of two with one name, the same files are one.
    With `is_ours` the tree was written by this process, in the folder of the offer, and holds what is a part
    of a skill alone: then it is moved, and not copied.
    """
    tree = tree.resolve()  # as discovery names what it finds
    every = list(_found(tree / wanted.address.path, wanted))
    found = [each for each in every if not each.fault]
    faults = [
        EntryError(wanted.address.text, cut(visible_line(each.entry), _SHOWN), each.fault)
        for each in every
        if each.fault and (not wanted.names or not wanted.names.isdisjoint({each.name, each.folder.name}))
    ]
    wanted.pass_over(faults, found)
    listed = {each.name: _listed(each) for each in found}
    named, wanted = wanted, wanted.among([listed[name] for name in sorted(listed)])
    names = {each.name for each in found}
    if missing := sorted(wanted.names - names):
        raise OfferError(
            wanted.address.text, f"there is no {missing[0]} in it{_other_names(missing[0], names)}"
        )
    copies: list[OfferedSkill] = []
    reasons: list[PackageError] = []
    for name, places in groupby(sorted(found, key=attrgetter("name", "folder")), key=attrgetter("name")):
        if not wanted.names or name in wanted.names:
            try:
                copies.append(_only(name, [each.folder for each in places], tree, wanted, is_ours))
            except PackageError as error:
                reasons.append(error)
    named.pass_over(reasons, copies)
    if not copies:
        raise OfferError(wanted.address.text, "it has no skill: no folder with a SKILL.md")
    return tuple(copies)


def files_of(digests: list[MemberDigest]) -> dict[str, str]:
    """Return digests of files as a lock has them."""
    return {path: digest if kind == "file" else f"{digest} {kind}" for path, kind, digest in digests}


class _Found(NamedTuple):
    name: str
    folder: Path
    entry: str
    """Its SKILL.md in the place."""
    fault: str
    """Why it is not installed; empty where it can be."""
    reading: SkillReading


def _listed(found: _Found) -> Listed:
    said = found.reading.metadata
    if said is None:
        return Listed(found.name)
    return Listed(found.name, said.description, said.version or "", said.requires)


def _other_names(missing: str, names: Collection[str]) -> str:
    if not names:
        return ": it has no skill"
    near = get_close_matches(missing, names, n=1)
    has = f"has {list_names([visible_line(name) for name in sorted(names)])}"
    return f"; did you mean {visible_line(near[0])}? It {has}" if near else f": it {has}"


def _found(folder: Path, wanted: Wanted) -> Iterator[_Found]:
    if not folder.is_dir():
        raise OfferError(wanted.address.text, f"there is no folder {wanted.address.path} in it")
    source = DirectorySource(folder, _LABEL, trusted=False, within=folder)
    seen, _ = Discovery([source], Strictness(), None).scan()
    tops: set[str] = set()
    for skill in sorted(seen, key=attrgetter("entry.path")):
        place = Path(skill.entry.path).parent
        if any(str(above) in tops for above in place.parents):
            continue
        name = _name(skill, place, folder)
        entry, fault = _relative(Path(skill.entry.path), folder), _fault(skill, name, folder)
        if not fault:  # what is passed over, as an index at the top of a repository, takes nothing with it
            tops.add(str(place))
        yield _Found(name, place, entry, fault, skill)


def _name(skill: SkillReading, place: Path, tree: Path) -> str:
    """Return the name to install it under: its own, or that of its folder where it is `A Title`."""
    own = skill.metadata.name if skill.metadata is not None else place.name
    is_title = own.isascii() and not is_spec_name(own) and place != tree and is_spec_name(place.name)
    return place.name if is_title else own


def _fault(skill: SkillReading, name: str, tree: Path) -> str:
    """Return why a skill is not installed as it is written; empty for one that is."""
    place = Path(skill.entry.path)
    if skill.metadata is None:
        why = next((each.message for each in skill.diagnostics if each.severity == "error"), "")
        return why.rstrip(".") or "it cannot be read"
    if place.name != SKILL_FILE:
        return f"its name has to be {SKILL_FILE}"
    if not is_spec_name(name):
        return f"its name has to be {NAME_RULE}"
    if place.parent == tree and any(each.code in _WITHOUT_NAME for each in skill.diagnostics):
        return "it has no name, and no folder that gives it one"
    misread = next((each.message for each in skill.diagnostics if each.code in _MISREAD), "").rstrip(".")
    return f"it is not installed under a name that is read otherwise: {misread}" if misread else ""


def _only(name: str, folders: list[Path], tree: Path, wanted: Wanted, is_ours: bool) -> OfferedSkill:
    first, *others = [
        _copied(folder, tree, wanted, wanted.into / COPIES / str(number) / name, is_ours)
        for number, folder in enumerate(folders)
    ]
    if other := next((each for each in others if each.digest != first.digest), None):
        reason = (
            f"{first.path or '.'} and {other.path or '.'} in it are both named {name}: name one by its path"
        )
        raise OfferError(wanted.address.text, reason)
    return first


def _copied(folder: Path, tree: Path, wanted: Wanted, target: Path, is_ours: bool) -> OfferedSkill:
    try:
        place_skill = _move_skill if is_ours else copy_skill
        place_skill(folder, target, wanted.address.text, wanted.limits)
        digests = list(read_digests(target, list_contents(target, wanted.limits)))
        digest, files = digest_of(digests), files_of(digests)
        if manifest := read_manifest(target):
            manifest.check(target.name, digest, files, target / MANIFEST_FILE)
        metadata = metadata_of(target)
    except (EntryError, SnapshotError) as error:
        inner = getattr(error, "entry", "")
        path = "/".join(filter(None, (visible_line(_relative(folder, tree)), inner))) or "."
        raise EntryError(wanted.address.text, cut(path, 2 * _SHOWN), error.reason) from error
    except OSError as error:
        raise OfferError(wanted.address.text, error.strerror or str(error)) from error
    if metadata is None or (is_spec_name(metadata.name) and metadata.name != target.name):
        raise OfferError(wanted.address.text, f"{_relative(folder, tree)} was changed while it was copied")
    return OfferedSkill(target.name, target, digest, files, _relative(folder, tree), metadata=metadata)


def metadata_of(copy: Path) -> SkillMetadata | None:
    """Return what the SKILL.md of a copy says; None for one that cannot be read. Raises OSError."""
    head = read_beneath(copy, SKILL_FILE, HEAD_BYTES)
    return read_metadata(head, Place(_LABEL, str(copy / SKILL_FILE), copy.name, trusted=False)).metadata


def _move_skill(folder: Path, target: Path, package: str, limits: ContentLimits) -> None:
    """Move a folder that this process wrote, if it holds files of a skill alone.

    One with links is copied: a link may lead by a way that is gone then.
    """
    if not _check(folder, package):
        copy_skill(folder, target, package, limits)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)


def copy_skill(folder: Path, target: Path, package: str, limits: ContentLimits) -> None:
    """Copy a skill's folder strictly: what is no file, folder or link within it is refused.

    What is no part of a skill (contents.py) is left out, and the manifest is not. Raises EntryError,
    SnapshotError and OSError.
    """
    _check(folder, package)
    target.mkdir(parents=True)
    for member in list_contents(folder, limits):
        place = target / member.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if member.kind == "link":
            place.symlink_to(os.path.relpath(member.target, os.path.dirname(member.path) or "."))  # noqa: PTH120
            continue
        with place.open("xb") as copy:
            copy.writelines(pieces_of(folder, member))
            os.fchmod(copy.fileno(), 0o755 if member.kind == "exec" else 0o644)
    if (manifest := read_manifest_file(folder)) is not None:
        with (target / MANIFEST_FILE).open("xb") as copy:
            copy.write(manifest)
            os.fchmod(copy.fileno(), 0o644)


def _check(folder: Path, package: str) -> bool:
    """Refuse what `list_contents` passes over silently, and names that mean something else elsewhere.

    Returns whether there is nothing else in it, and no link.
    """
    names = EntryNames(package)
    real = os.path.realpath(folder)
    is_plain = True
    links: list[str] = []
    for path, inner, files in walk(folder):
        parts = [each for each in inner if each not in LEFT_OUT]
        is_plain, inner[:] = is_plain and parts == inner, parts
        for name in (*inner, *files):
            if name in LEFT_OUT:
                is_plain = is_plain and name == MANIFEST_FILE and Path(path) == folder
                continue
            place = Path(path, name)
            relative = _relative(place, folder)
            mode = place.lstat().st_mode
            names.add(relative, is_folder=stat.S_ISDIR(mode))
            if stat.S_ISLNK(mode):
                links.append(relative)
                if is_endless(str(place)):
                    raise names.refused(relative, ENDLESS)
                if not os.path.realpath(place).startswith(f"{real}/"):
                    raise names.refused(relative, "it is a link that leads out of the skill")
            elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise names.refused(relative, "it is no file and no folder")
    if link := link_in_circle(real, links):
        raise names.refused(link, ENDLESS)
    return is_plain and not links


def _relative(place: Path, tree: Path) -> str:
    relative = place.relative_to(tree).as_posix()
    return "" if relative == "." else relative
