"""Which skills' folders and files of settings the person of this machine vouches for: docs/policy.md."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.confined import read_beneath, read_own_file, write_own_file
from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.library.contents import ContentLimits, SnapshotError, measure
from skills_agent.skills.sources.directory import DirectorySource, project_source
from skills_agent.skills.sources.plugin import plugin_above

VERSION: Final = 1
MAX_LIST: Final = 10_000_000
"""Bytes of the file that says what is trusted."""
MAX_CONFIG: Final = 100_000
"""Bytes of a file of settings."""


class TrustFileError(DetailedError, SkillError):
    """The file that holds what is trusted cannot be used: then nothing is trusted by it."""

    code = "trust-file-unusable"
    sentence = "Cannot use {file}: {cause}. {advice}."
    file: Path
    cause: str
    advice: str = "Repair or remove it"


class TrustedPath(NamedTuple):
    """A skill's folder, a workspace's file of settings, or a pin, as it was when somebody vouched for it."""

    path: str
    """Absolute, links resolved; of a pin, as the hook `pins` has it."""
    digest: str


@dataclass(frozen=True)
class TrustList:
    """The list in one file. Read anew each time: another process may change it."""

    file: Path
    """It need not exist."""
    limits: ContentLimits = field(default_factory=ContentLimits)
    """A folder over them cannot be trusted."""

    def paths(self) -> tuple[TrustedPath, ...]:
        """Return what is trusted, in path order. Raises TrustFileError."""
        try:
            read = json.loads(read_own_file(self.file, MAX_LIST))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) else str(error)
            raise TrustFileError(self.file, f"{cause}") from error
        version = read.get("version") if isinstance(read, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise TrustFileError(
                self.file, "it was written by a newer version of skills-agent", "Use that one"
            )
        folders = read.get("folders") if version == VERSION else None
        if not isinstance(folders, dict) or not all(isinstance(folder, str) for folder in folders.values()):
            raise TrustFileError(self.file, f"it does not hold version {VERSION} of the list")
        return tuple(TrustedPath(path, folders[path]) for path in sorted(folders))

    def vouches_for(self, folder: Path, digest: str) -> bool:
        """Return whether this version of a folder is trusted. Raises TrustFileError."""
        return TrustedPath(os.path.realpath(folder), digest) in self.paths()

    def is_unchanged(self, trusted: TrustedPath) -> bool:
        """Return whether a folder or a file still is what was trusted."""
        path = Path(trusted.path)
        try:
            if path.is_dir():
                is_alone = measure(path, None, self.limits).digest == trusted.digest
                return is_alone or self.plugin_of(trusted) is not None
            raw = read_beneath(path.parent, path.name, MAX_CONFIG + 1, follow=False)
            return hashlib.sha256(raw).hexdigest() == trusted.digest
        except (OSError, SnapshotError):
            return False

    def plugin_of(self, trusted: TrustedPath) -> Path | None:
        """Return the plugin that a skill is trusted with, while both are what was trusted; None without one.

        Raises SnapshotError.
        """
        path = Path(trusted.path)
        plugin = plugin_above(path, path, top=Path(path.anchor), own=(), same_trust=True)
        measured = measure(path, plugin, self.limits)
        return measured.folder if measured.skill and measured.digest == trusted.digest else None

    def add(
        self, *folders: Path, project: Path | None = None, more: Iterable[TrustedPath] = ()
    ) -> tuple[TrustedPath, ...]:
        """Trust the folder of every skill in folders, as they are now, and what `more` says.

        A skill of a `project` is trusted with its plugin; folders in it that a link leads out of it are left
        out. Raises SkillError, SnapshotError, TrustFileError.
        """
        sources = (
            project_source(project, folder, "trust") if project else DirectorySource(folder, "trust")
            for folder in folders
        )
        found = ((source, skill.path) for source in sources for skill in source.scan().skills)
        skills = {os.path.realpath(Path(path).parent): (source, path) for source, path in found}
        added = [
            TrustedPath(root, measure(Path(path).parent, source.plugin(path), self.limits).digest)
            for root, (source, path) in skills.items()
        ]
        added += more
        if not added:
            raise SkillError(
                f"There is nothing to trust in {os.path.commonpath(folders)}: no skill, and no settings of a "
                "workspace. Name the folder of a skill, or one of such folders; or none, to trust the "
                "workspace."
            )
        self._write({**dict(self.paths()), **dict(added)})
        return tuple(added)

    def revoke(self, folder: Path) -> tuple[TrustedPath, ...]:
        """Trust a folder and what is in it no more; return what was trusted. Raises TrustFileError."""
        place = Path(os.path.realpath(folder))
        before = self.paths()
        ended = tuple(each for each in before if Path(each.path).is_relative_to(place))
        if ended:
            self._write(dict(each for each in before if each not in ended))
        return ended

    def _write(self, folders: dict[str, str]) -> None:
        text = json.dumps({"version": VERSION, "folders": folders}, indent=2, sort_keys=True)
        try:
            write_own_file(self.file, f"{text}\n".encode())
        except OSError as error:
            raise TrustFileError(self.file, error.strerror or str(error)) from error
