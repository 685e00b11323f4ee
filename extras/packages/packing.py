"""From folders of skills to an archive that anybody can make again, byte by byte.

Layout: one folder a skill, named like it, as `.skill` files have it. Left out is what the digest leaves out,
and nothing else: a skill has one digest, wherever it comes from. (Anthropic's `package_skill.py` leaves out
`evals/`.)
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.packages.archive_draft import archive_draft
from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import PackageError
from skills_agent.packages.link_circles import ENDLESS, link_in_circle
from skills_agent.packages.manifest import MANIFEST_FILE, Manifest, read_manifest
from skills_agent.packages.staging import files_of
from skills_agent.packages.zip_writing import Stored, write_stored
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.errors import DetailedError
from skills_agent.skills.format.frontmatter import HEAD_BYTES
from skills_agent.skills.format.lint import lint
from skills_agent.skills.format.reading import Place, read_metadata
from skills_agent.skills.format.rules import NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import (
    ContentLimits,
    Member,
    MemberDigest,
    digest_of,
    list_contents,
    pieces_of,
    read_digests,
    signature_of,
)
from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.walk import SKILL_FILE

ENDINGS: Final = (".skill", ".zip")
_MODES: Final = {"file": stat.S_IFREG | 0o644, "exec": stat.S_IFREG | 0o755, "link": stat.S_IFLNK | 0o777}
_IS_THERE: Final = "it is there already; --force replaces it"


class PackError(DetailedError, PackageError):
    """A folder that is not packed. No file has been written."""

    sentence = "{what} is not packed: {reason}."
    what: str
    reason: str


class UnfitError(PackError):
    """A skill that breaks the rules."""

    code = "pack-unfit"
    findings: tuple[Diagnostic, ...]


class PackedSkill(NamedTuple):
    """A skill in an archive."""

    name: str
    digest: str
    """As whoever installs it finds it."""
    files: int
    is_signed: bool
    """Whether its manifest carries a signature, which its folder had."""
    without: tuple[str, ...]
    """What the folder has, and the archive has not, and somebody may miss."""


class Packed(NamedTuple):
    """An archive that was written."""

    file: Path
    sha256: str
    size: int
    skills: tuple[PackedSkill, ...]
    """By name."""


class _Contents(NamedTuple):
    """What of a folder is packed."""

    folder: Path
    members: list[Member]
    digests: list[MemberDigest]
    stamp: str
    """Differs when a member does, by `stat`."""
    manifest: bytes
    packed: PackedSkill


def pack(
    folders: Sequence[Path],
    file: Path,
    limits: ContentLimits = ContentLimits(),  # noqa: B008 - immutable
    *,
    force: bool = False,
    allow_warnings: bool = False,
) -> Packed:
    """Write an archive of the skills in some folders. Raises PackError, SnapshotError and OSError.

    A skill with findings of `skills lint` is refused, warnings included unless they are allowed. So are files
    that change meanwhile. An archive that is there is replaced with `force` alone.
    """
    folders = [folder.resolve() for folder in folders]
    _check_file(folders, file, force=force)
    for folder in folders:
        _check_skill(folder, allow_warnings=allow_warnings)
    contents = sorted((_read(folder, limits) for folder in folders), key=lambda each: each.packed.name)
    names = [each.packed.name for each in contents]
    if twice := next((each for each in names if names.count(each) > 1), ""):
        raise PackError(twice, "two of the folders are named so")
    return _write(contents, file, force=force)


def _check_file(folders: Sequence[Path], file: Path, *, force: bool) -> None:
    if not file.name.endswith(ENDINGS):
        raise PackError(str(file), f"the name of an archive of skills ends in {' or '.join(ENDINGS)}")
    if not force and os.path.lexists(file):
        raise PackError(str(file), _IS_THERE)
    above = file.parent.resolve()
    if inside := next((each for each in folders if above.is_relative_to(each)), None):
        raise PackError(
            str(file), f"it would lie in the skill {inside.name}, and be a part of it; say -o FILE"
        )


def _check_skill(folder: Path, *, allow_warnings: bool) -> None:
    if not (folder / SKILL_FILE).is_file():
        raise PackError(str(folder), f"it has no {SKILL_FILE}; name the folder of a skill")
    wrong = {"error"} if allow_warnings else {"error", "warning"}
    report = lint(folder)
    if findings := tuple(each for each in report.findings if each.severity in wrong):
        raise UnfitError(folder.name, "skills lint finds what is to be corrected first", findings)
    if not is_spec_name(
        folder.name
    ):  # other validators take letters of other scripts, and no installation does
        raise PackError(folder.name, f"it could not be installed: its name has to be {NAME_RULE}")


def _read(folder: Path, limits: ContentLimits) -> _Contents:
    skipped: list[str] = []
    members = list_contents(folder, limits, skipped)
    if skipped:
        raise PackError(
            f"{folder.name}/{skipped[0]}",
            "it leads out of the skill or to itself, or is no file and no folder",
        )
    names = EntryNames(folder.name)
    for each in members:
        names.add(each.path)
    if link := link_in_circle(folder, (each.path for each in members if each.kind == "link")):
        raise PackError(f"{folder.name}/{link}", ENDLESS)
    digests = list(read_digests(folder, members))
    manifest, without = _manifest(folder, digests)
    packed = PackedSkill(
        manifest.name,
        manifest.digest,
        len(members),
        bool(manifest.signature),
        tuple(without),
    )
    return _Contents(folder, members, digests, signature_of(members), manifest.content(), packed)


def manifest_of(folder: Path, limits: ContentLimits) -> Manifest:
    """Return the manifest of a skill's folder as it is, with the signature that is in it if it still fits.

    Raises PackError and SnapshotError.
    """
    if not (folder / SKILL_FILE).is_file():
        raise PackError(str(folder), f"it has no {SKILL_FILE}; name the folder of a skill")
    return _manifest(folder, list(read_digests(folder, list_contents(folder, limits))))[0]


def _manifest(folder: Path, digests: list[MemberDigest]) -> tuple[Manifest, list[str]]:
    """Return a manifest, and what of the one in the folder is lost."""
    head = read_beneath(folder, SKILL_FILE, HEAD_BYTES)
    metadata = read_metadata(head, Place("pack", str(folder / SKILL_FILE), folder.name)).metadata
    name, version = (metadata.name, metadata.version or "") if metadata is not None else (folder.name, "")
    digest = digest_of(digests)
    before = read_manifest(folder)
    signature = before.signature if before is not None and before.digest == digest else ""
    manifest = Manifest(
        version=1,
        name=name,
        skill_version=version,
        digest=digest,
        files=files_of(digests),
        signature=signature,
    )
    is_lost = before is not None and before.signature and not signature
    return manifest, ["the signature of other files"] if is_lost else []


def _write(contents: Sequence[_Contents], file: Path, *, force: bool) -> Packed:
    """Write beside the file and put in place when all is there: whoever reads it reads all of it."""
    with archive_draft(file.parent) as (draft, archive):
        write_stored(archive, (entry for each in contents for entry in _entries(each)))
        archive.flush()
        os.fsync(archive.fileno())
        archive.seek(0)
        digest = hashlib.file_digest(archive, "sha256").hexdigest()
        size = archive.tell()
        for each in contents:
            _check_same(each)
        _put(draft, file, force=force)
    return Packed(file, digest, size, tuple(each.packed for each in contents))


def _put(draft: Path, file: Path, *, force: bool) -> None:
    try:
        if not force:
            file.hardlink_to(draft)  # which never replaces, whoever was faster
            return
    except FileExistsError:
        raise PackError(str(file), _IS_THERE) from None
    except OSError:  # a file system without such links
        if os.path.lexists(file):
            raise PackError(str(file), _IS_THERE) from None
    draft.replace(file)


def _entries(contents: _Contents) -> Iterator[Stored]:
    """Yield the entries of a skill in the order of their paths' bytes. Raises PackError for what changed."""
    digests = {each.path: each.digest for each in contents.digests}
    entries = [Stored(MANIFEST_FILE, _MODES["file"], len(contents.manifest), [contents.manifest])]
    for each in contents.members:
        if each.kind == "link":
            target = os.fsencode(os.path.relpath(each.target, os.path.dirname(each.path) or "."))  # noqa: PTH120
            entries.append(Stored(each.path, _MODES["link"], len(target), [target]))
        else:
            pieces = _same_pieces(contents, each, digests[each.path])
            entries.append(Stored(each.path, _MODES[each.kind], each.status.st_size, pieces))
    for entry in sorted(entries, key=lambda each: os.fsencode(each.path)):
        yield entry._replace(path=f"{contents.packed.name}/{entry.path}")


def _same_pieces(contents: _Contents, member: Member, digest: str) -> Iterator[bytes]:
    """Yield a file as it is written, and refuse it if it is another one than the digest was made of."""
    written = hashlib.sha256()
    for piece in pieces_of(contents.folder, member):
        written.update(piece)
        yield piece
    if written.hexdigest() != digest:
        raise _changed(contents, member.path)


def _check_same(contents: _Contents) -> None:
    """Refuse a folder in which something was changed, added or removed since it was read."""
    now = list_contents(contents.folder, ContentLimits(1 << 62, 1 << 62))
    if signature_of(now) != contents.stamp:
        raise _changed(contents, "")


def _changed(contents: _Contents, path: str) -> PackError:
    where = f"{contents.folder.name}/{path}" if path else contents.folder.name
    return PackError(where, "it was changed while it was packed; try again")
