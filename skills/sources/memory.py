"""Skills that live in the process: made by a program, or by a test."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

from skills_agent.skills.files import NotRegularFileError, OutsideRootError, parts_of
from skills_agent.skills.sources.protocol import FoundSkill, Scan, SkillFile

SKILL_FILE = "SKILL.md"


class MemorySource:
    """A mapping of folder to files: `{"csv-report": {"SKILL.md": "---...", "scripts/profile.py": "..."}}`.

    The mapping is read at every scan, so a program may change it between turns.
    """

    def __init__(
        self,
        skills: Mapping[str, Mapping[str, str | bytes]],
        label: str = "memory",
        *,
        trusted: bool = True,
    ) -> None:
        self.label = label
        self.trusted = trusted
        self._skills = skills

    def scan(self) -> Scan:
        """Find every folder that has a SKILL.md."""
        found = []
        for folder in sorted(self._skills):
            if SKILL_FILE in self._skills[folder]:
                content = _as_bytes(self._skills[folder][SKILL_FILE])
                name = folder.rsplit("/", 1)[-1]
                stamp = (len(content), crc32(content))
                found.append(FoundSkill(self._path(folder), name, stamp, len(content)))
        return Scan(tuple(found))

    def read(self, path: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a SKILL.md."""
        return self.read_file(path, SKILL_FILE, limit)

    def files(self, path: str) -> Iterator[SkillFile]:
        """Yield the other files of the folder, in path order."""
        files = self._files(path)
        for relative in sorted(files):
            if relative != SKILL_FILE:
                yield SkillFile(relative, len(_as_bytes(files[relative])))

    def read_file(self, path: str, relative: str, limit: int) -> bytes:
        """Return the first `limit` bytes of a file of the folder."""
        files = self._files(path)
        parts = parts_of(relative)
        if not parts:
            raise NotRegularFileError(relative)
        plain = "/".join(parts)
        if plain in files:
            return _as_bytes(files[plain])[:limit]
        if any(name.startswith(f"{plain}/") for name in files):
            raise NotRegularFileError(relative)
        raise FileNotFoundError(relative)

    def root(self, path: str) -> Path | None:
        """Return None: there is no folder."""
        del path
        return None

    def claims(self, path: str) -> bool:
        """Return whether a path is in the mapping, now or at another time."""
        return path.startswith(f"{self.label}:")

    def _path(self, folder: str) -> str:
        return f"{self.label}:{folder}/{SKILL_FILE}"

    def _files(self, path: str) -> Mapping[str, str | bytes]:
        folder = path.removeprefix(f"{self.label}:").removesuffix(f"/{SKILL_FILE}")
        if self._path(folder) != path:
            raise OutsideRootError(path)
        if folder not in self._skills:
            raise FileNotFoundError(path)
        return self._skills[folder]


def _as_bytes(content: str | bytes) -> bytes:
    # A lone surrogate becomes bytes that are not UTF-8, which the reader then reports.
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
