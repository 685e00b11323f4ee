"""Skills that live in the process: made by a program, or by a test."""

from collections.abc import Mapping
from zlib import crc32

from skills_agent.skills.sources.fetched import FetchedSource, ListedFile, Listing, missing


class MemorySource(FetchedSource):
    """A mapping of folder to files: `{"csv-report": {"SKILL.md": "---...", "scripts/profile.py": "..."}}`.

    The mapping is read at every scan, so a program may change it between turns.
    """

    def __init__(
        self, skills: Mapping[str, Mapping[str, str | bytes]], label: str = "memory", *, trusted: bool = True
    ) -> None:
        super().__init__(label, f"{label}:", trusted=trusted)
        self._skills = skills

    def _list(self) -> Listing:
        listing = Listing(self.place)
        for folder, files in self._skills.items():
            for relative, content in files.items():
                raw = _as_bytes(content)
                file = ListedFile((folder, relative), len(raw), (len(raw), crc32(raw)))
                listing.add(f"{folder}/{relative}", file)
        return listing

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        folder, relative = file.key
        try:
            return _as_bytes(self._skills[folder][relative])[:limit]
        except KeyError as error:
            raise missing(relative) from error

    def _path(self, relative: str) -> str:
        return f"{self.place}{relative}"


def _as_bytes(content: str | bytes) -> bytes:
    # A lone surrogate becomes bytes that are not UTF-8, which the reader then reports.
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
