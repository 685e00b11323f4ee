"""From folders of skills to an archive that anybody can make again, byte by byte.

Layout: one folder a skill, named like it, as `.skill` files have it. Left out is what the digest leaves out,
and nothing else: a skill has one digest, wherever it comes from. (Anthropic's `package_skill.py` leaves out
`evals/`.) Entries are stored and not deflated: what zlib makes of a text differs between its versions.
"""

import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from skills_agent.packages.errors import PackageError
from skills_agent.packages.manifest import MANIFEST_FILE, Manifest, read_manifest
from skills_agent.packages.staging import copy_skill, files_of, link_text, metadata_of
from skills_agent.skills.errors import DetailedError
from skills_agent.skills.format.lint import lint
from skills_agent.skills.format.rules import NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import (
    ContentLimits,
    MemberDigest,
    digest_of,
    list_contents,
    read_digests,
)
from skills_agent.skills.skill import Diagnostic
from skills_agent.skills.sources.walk import SKILL_FILE

ENDINGS: Final = (".skill", ".zip")
_MODES: Final = {"file": stat.S_IFREG | 0o644, "exec": stat.S_IFREG | 0o755, "link": stat.S_IFLNK | 0o777}
_FIRST_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The first that a zip can have."""
_UNIX: Final = 3


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


def pack(
    folders: Sequence[Path],
    file: Path,
    limits: ContentLimits = ContentLimits(),  # noqa: B008 - immutable
    *,
    force: bool = False,
    allow_warnings: bool = False,
) -> Packed:
    """Write an archive of the skills in some folders. Raises PackageError, SnapshotError and OSError.

    A skill with findings of `skills lint` is refused, warnings included unless they are allowed. Each is
    copied first: a change meanwhile is in no archive. One that is there is replaced with `force` alone.
    """
    folders = sorted((folder.resolve() for folder in folders), key=lambda each: each.name)
    _check_file(folders, file, force=force)
    names = [each.name for each in folders]
    if twice := next((each for each in names if names.count(each) > 1), ""):
        raise PackError(twice, "two of the folders are named so")
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory() as place:
        skills = [
            _prepare(each, Path(place, each.name), limits, allow_warnings=allow_warnings) for each in folders
        ]
        try:
            with draft.open("xb+") as archive:
                _write_zip(archive, [Path(place, each.name) for each in folders], limits)
                archive.seek(0)
                digest, size = hashlib.file_digest(archive, "sha256").hexdigest(), archive.tell()
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)
    return Packed(file, digest, size, tuple(skills))


def manifest_of(folder: Path, limits: ContentLimits) -> Manifest:
    """Return the manifest of a skill's folder as it is, with the signature that is in it if it still fits.

    Raises PackError and SnapshotError.
    """
    if not (folder / SKILL_FILE).is_file():
        raise PackError(str(folder), f"it has no {SKILL_FILE}; name the folder of a skill")
    return _manifest(folder, list(read_digests(folder, list_contents(folder, limits))))


def _check_file(folders: Sequence[Path], file: Path, *, force: bool) -> None:
    if not file.name.endswith(ENDINGS):
        raise PackError(str(file), f"the name of an archive of skills ends in {' or '.join(ENDINGS)}")
    if not force and os.path.lexists(file):
        raise PackError(str(file), "it is there already; --force replaces it")
    above = file.parent.resolve()
    if inside := next((each for each in folders if above.is_relative_to(each)), None):
        reason = f"it would lie in the skill {inside.name}, and be a part of it; say -o FILE"
        raise PackError(str(file), reason)


def _prepare(folder: Path, copy: Path, limits: ContentLimits, *, allow_warnings: bool) -> PackedSkill:
    """Copy a skill with its manifest."""
    if not (folder / SKILL_FILE).is_file():
        raise PackError(str(folder), f"it has no {SKILL_FILE}; name the folder of a skill")
    wrong = {"error"} if allow_warnings else {"error", "warning"}
    if findings := tuple(each for each in lint(folder).findings if each.severity in wrong):
        raise UnfitError(folder.name, "skills lint finds what is to be corrected first", findings)
    if not is_spec_name(folder.name):  # other validators take letters of other scripts
        raise PackError(folder.name, f"it could not be installed: its name has to be {NAME_RULE}")
    digests = copy_skill(folder, copy, folder.name, limits)
    before, manifest = read_manifest(copy), _manifest(copy, digests)
    (copy / MANIFEST_FILE).write_bytes(manifest.content())
    is_lost = before is not None and before.signature and not manifest.signature
    without = ("the signature of other files",) if is_lost else ()
    return PackedSkill(manifest.name, manifest.digest, len(digests), bool(manifest.signature), without)


def _manifest(folder: Path, digests: list[MemberDigest]) -> Manifest:
    metadata, before, digest = metadata_of(folder), read_manifest(folder), digest_of(digests)
    return Manifest(
        version=1,
        name=metadata.name if metadata is not None else folder.name,
        skill_version=(metadata.version or "") if metadata is not None else "",
        digest=digest,
        files=files_of(digests),
        signature=before.signature if before is not None and before.digest == digest else "",
    )


def _write_zip(file: IO[bytes], copies: Sequence[Path], limits: ContentLimits) -> None:
    """Write a zip of which every byte follows from its content, in the order of the paths' bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for copy in copies:
            entries = {MANIFEST_FILE: ("file", (copy / MANIFEST_FILE).read_bytes())}
            for each in list_contents(copy, limits):
                raw = os.fsencode(link_text(each)) if each.kind == "link" else (copy / each.path).read_bytes()
                entries[each.path] = (each.kind, raw)
            for path in sorted(entries, key=os.fsencode):
                kind, raw = entries[path]
                info = zipfile.ZipInfo(f"{copy.name}/{path}", _FIRST_TIME)
                info.create_system, info.external_attr = _UNIX, _MODES[kind] << 16
                archive.writestr(info, raw)
