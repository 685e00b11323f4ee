"""Which skills' folders the person of this machine vouches for, by path and digest: docs/policy.md."""

import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.library.contents import ContentLimits, SnapshotError, folder_digest
from skills_agent.skills.sources.directory import DirectorySource

VERSION: Final = 1


class TrustFileError(DetailedError, SkillError):
    """The file that holds what is trusted cannot be used: then nothing is trusted by it."""

    code = "trust-file-unusable"
    sentence = "Cannot use {file}: {cause}. Repair or remove it."
    file: Path
    cause: str


class NothingToTrustError(DetailedError, SkillError):
    """A folder without a skill."""

    sentence = "There is no skill in {folder}. Name the folder of a skill, or one of such folders."
    folder: Path


class TrustedFolder(NamedTuple):
    """A skill's folder as it was when somebody vouched for it."""

    path: str
    """Absolute, links resolved."""
    digest: str


@dataclass(frozen=True)
class TrustList:
    """The folders in one file. Read anew each time: another process may change it."""

    file: Path
    """It need not exist."""
    limits: ContentLimits = field(default_factory=ContentLimits)
    """A folder over them cannot be trusted."""

    def folders(self) -> tuple[TrustedFolder, ...]:
        """Return what is trusted, in path order. Raises TrustFileError."""
        try:
            read = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            raise TrustFileError(self.file, str(error)) from error
        folders = read.get("folders") if isinstance(read, dict) and read.get("version") == VERSION else None
        if not isinstance(folders, dict) or not all(isinstance(each, str) for each in folders.values()):
            raise TrustFileError(self.file, f"it does not hold version {VERSION} of the list")
        return tuple(TrustedFolder(path, folders[path]) for path in sorted(folders))

    def vouches_for(self, folder: Path, digest: str) -> bool:
        """Return whether this version of a folder is trusted. Raises TrustFileError."""
        return TrustedFolder(os.path.realpath(folder), digest) in self.folders()

    def is_unchanged(self, folder: TrustedFolder) -> bool:
        """Return whether a folder still is what was trusted."""
        try:
            return folder_digest(Path(folder.path), self.limits) == folder.digest
        except SnapshotError:
            return False

    def add(self, folder: Path) -> tuple[TrustedFolder, ...]:
        """Trust a skill's folder, or every skill's folder in a folder, as they are now.

        Raises NothingToTrustError, SnapshotError, TrustFileError.
        """
        roots = [Path(entry.path).parent for entry in DirectorySource(folder, "trust").scan().skills]
        if not roots:
            raise NothingToTrustError(folder)
        added = tuple(
            TrustedFolder(os.path.realpath(root), folder_digest(root, self.limits)) for root in roots
        )
        self._write({**dict(self.folders()), **dict(added)})
        return added

    def revoke(self, folder: Path) -> tuple[TrustedFolder, ...]:
        """Trust a folder and what is in it no more; return what was trusted. Raises TrustFileError."""
        place = Path(os.path.realpath(folder))
        before = self.folders()
        ended = tuple(each for each in before if Path(each.path).is_relative_to(place))
        if ended:
            self._write(dict(each for each in before if each not in ended))
        return ended

    def _write(self, folders: dict[str, str]) -> None:
        text = json.dumps({"version": VERSION, "folders": folders}, indent=2, sort_keys=True)
        draft = self.file.with_name(f".{self.file.name}.{secrets.token_hex(4)}")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_text(f"{text}\n", encoding="utf-8")
            draft.replace(self.file)
        except OSError as error:
            raise TrustFileError(self.file, error.strerror or str(error)) from error
