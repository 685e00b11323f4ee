"""From the folder of a skill to an archive that anybody can make again, byte by byte.

Layout: one folder, named like the skill, as `.skill` files have it. Left out is what the digest leaves out,
and nothing else: a skill has one digest, wherever it comes from. (Anthropic's `package_skill.py` leaves out
`evals/`.) Entries are stored and not deflated: what zlib makes of a text differs between its versions.
"""

import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from skills_agent.packages.errors import PackageError
from skills_agent.packages.manifest import MANIFEST_FILE, Manifest, read_manifest
from skills_agent.packages.offer import version_of
from skills_agent.packages.staging import copy_skill, digests_of, files_of, metadata_of
from skills_agent.skills.format.lint import lint
from skills_agent.skills.format.rules import NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import ContentLimits, digest_of, list_contents
from skills_agent.skills.sources.walk import SKILL_FILE

ENDINGS: Final = (".skill", ".zip")
_MODES: Final = {"file": stat.S_IFREG | 0o644, "exec": stat.S_IFREG | 0o755, "link": stat.S_IFLNK | 0o777}
_FIRST_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The first that a zip can have."""
_UNIX: Final = 3


def pack(folder: Path, file: Path) -> Manifest:
    """Write an archive of a skill, in place of what is there, and return the manifest in it.

    A skill with errors of `skills lint` is refused. It is copied first: a change meanwhile is in no archive.
    Raises PackageError, SnapshotError and OSError.
    """
    folder = folder.resolve()
    if not file.name.endswith(ENDINGS):
        raise not_packed(str(file), f"the name of an archive of skills ends in {' or '.join(ENDINGS)}")
    if file.parent.resolve().is_relative_to(folder):
        raise not_packed(
            str(file), f"it would lie in the skill {folder.name}, and be a part of it; say -o FILE"
        )
    _check_skill(folder)
    if error := next((finding for finding in lint(folder).findings if finding.severity == "error"), None):
        raise not_packed(folder.name, f"skills lint finds errors: {error.message.rstrip('.')}")
    if not is_spec_name(folder.name):  # other validators take letters of other scripts
        raise not_packed(folder.name, f"it could not be installed: its name has to be {NAME_RULE}")
    limits = ContentLimits()
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, folder.name)
        copy_skill(folder, copy, folder.name, limits)
        manifest = manifest_of(copy)
        (copy / MANIFEST_FILE).write_bytes(manifest.content())
        with put_in_place(file) as archive:
            _write_zip(archive, copy, limits)
    return manifest


@contextmanager
def put_in_place(file: Path) -> Iterator[IO[bytes]]:
    """Yield a file beside another one, whose place it takes at the end: a reader has the old or the new."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with draft.open("xb") as opened:
            yield opened
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def not_packed(what: str, reason: str) -> PackageError:
    """Return the error of a folder that is not packed: no file has been written."""
    return PackageError(f"{what} is not packed: {reason}.")


def manifest_of(folder: Path) -> Manifest:
    """Return the manifest of a skill's folder as it is, with the signature that is in it if it still fits.

    Raises PackageError and SnapshotError.
    """
    _check_skill(folder)
    digests, metadata, before = digests_of(folder), metadata_of(folder), read_manifest(folder)
    digest = digest_of(digests)
    return Manifest(
        version=1,
        name=metadata.name if metadata is not None else folder.name,
        skill_version=version_of(metadata),
        digest=digest,
        files=files_of(digests),
        signature=before.signature if before is not None and before.digest == digest else "",
    )


def _check_skill(folder: Path) -> None:
    if not (folder / SKILL_FILE).is_file():
        raise not_packed(str(folder), f"it has no {SKILL_FILE}; name the folder of a skill")


def _write_zip(file: IO[bytes], copy: Path, limits: ContentLimits) -> None:
    """Write a zip of which every byte follows from its content, in the order of the paths' bytes."""
    entries = {MANIFEST_FILE: ("file", (copy / MANIFEST_FILE).read_bytes())}
    for content in list_contents(copy, limits):
        raw = os.fsencode(content.link) if content.kind == "link" else (copy / content.path).read_bytes()
        entries[content.path] = (content.kind, raw)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(entries, key=os.fsencode):
            kind, raw = entries[path]
            info = zipfile.ZipInfo(f"{copy.name}/{path}", _FIRST_TIME)
            info.create_system, info.external_attr = _UNIX, _MODES[kind] << 16
            archive.writestr(info, raw)
