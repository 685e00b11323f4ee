"""The manifest of a skill: what its files are, in the skill itself, and who signed that.

`publish pack` puts it into an archive. It is no part of the skill: no digest covers it and no snapshot has
it, so the signature in it can be of the digest in it. A package in which it does not fit the files is
refused.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from skills_agent.packages.errors import EntryError
from skills_agent.skills.confined import read_at_most
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.library.contents import LEFT_OUT
from skills_agent.skills.strict_json import strict_json
from skills_agent.skills.visible import visible_line

MANIFEST_FILE: Final = ".skill-manifest.json"
"""In the folder of the skill."""
PASSED_OVER: Final = LEFT_OUT - {MANIFEST_FILE}
"""Names of what is not copied from a package. The manifest is no part of a skill, and goes along."""
MAX_BYTES: Final = 8_000_000
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_File = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}(?: exec| link)?\Z")]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a manifest holds."""

    version: Literal[1]
    name: str
    """Of the skill."""
    skill_version: str = ""
    """As its frontmatter says."""
    digest: _Digest
    """Of the skill (docs/skills.md has the rule)."""
    files: Mapping[str, _File]
    """As in the lock: SHA-256 by path, with ` exec` or ` link` after it."""
    signature: str = ""
    """Of `statement`, as `ssh-keygen -Y sign -n agent-skills` writes it; nobody has checked it yet."""

    def content(self) -> bytes:
        """Return the file: the same bytes for the same manifest, by any version of anything."""
        return (
            json.dumps(msgspec.to_builtins(self), ensure_ascii=False, indent=2, sort_keys=True).encode()
            + b"\n"
        )

    def check(self, name: str, digest: str, files: Mapping[str, str], file: Path) -> None:
        """Raise EntryError where it is of another skill."""
        if self.name != name:
            raise _refused(file, f"it is of {visible_line(self.name)}, and the skill is named {name}")
        paths = [path for path in {*self.files, *files} if self.files.get(path) != files.get(path)]
        if self.digest != digest or paths:
            what = visible_line(min(paths)) if paths else "its digest"
            advice = "take it away, or pack the skill again"
            raise _refused(file, f"it does not fit the files: {what} was changed since; {advice}")


def statement(name: str, digest: str) -> bytes:
    """Return what is signed for a skill: a line as `sha256sum` writes it."""
    return f"{digest}  {name}\n".encode()


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in a skill's folder; None where there is none. Raises EntryError."""
    raw = read_manifest_file(folder)
    return None if raw is None else parse_manifest(raw, folder / MANIFEST_FILE)


def manifest_digest(folder: Path) -> str:
    """Return the SHA-256 of the manifest in a skill's folder; empty where there is none.

    Of one that cannot be read, a sentence that says so, and that is no digest.
    """
    try:
        raw = read_manifest_file(folder)
    except EntryError as error:
        return error.reason
    return "" if raw is None else hashlib.sha256(raw).hexdigest()


def read_manifest_file(folder: Path) -> bytes | None:
    """Return the bytes of the manifest in a skill's folder, by no link. Raises EntryError."""
    try:
        return read_at_most(folder, MANIFEST_FILE, MAX_BYTES, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _refused(folder / MANIFEST_FILE, error.strerror or str(error)) from error


def parse_manifest(raw: bytes, file: Path) -> Manifest:
    """Read what a manifest holds. Raises EntryError."""
    try:
        read = strict_json(raw)
        version = read.get("version") if isinstance(read, dict) else None
        if isinstance(version, int) and version > 1:
            raise _refused(file, "it was written by a newer version of skills-agent: use that one")
        manifest = msgspec.convert(read, Manifest)
    except (ValueError, RecursionError) as error:
        raise _refused(file, f"it cannot be read: {visible_line(str(error))[:200]}") from error
    if not is_spec_name(manifest.name):
        raise _refused(file, f"{visible_line(manifest.name)[:80]} is no name of a skill")
    return manifest


def _refused(file: Path, reason: str) -> EntryError:
    return EntryError(str(file.parent), MANIFEST_FILE, reason)
