"""A backend as deepagents has them, on a folder: for machines where deepagents is not installed."""

from dataclasses import dataclass
from pathlib import Path


@dataclass
class Answer:
    """What `ls` and `download_files` answer."""

    entries: list[dict[str, object]] | None = None
    content: bytes | None = None
    error: str | None = None


class FolderBackend:
    """Files of a folder under paths that begin with `/`; tells when one was changed only if `dated`."""

    def __init__(self, folder: Path, *, dated: bool = False) -> None:
        self.folder = folder
        self.dated = dated
        self.failing: set[str] = set()
        """Paths that give an error."""
        self.extra: list[dict[str, object]] = []
        """Entries that every folder has besides."""

    def ls(self, path: str) -> Answer:
        """List one folder."""
        folder = self.folder / path.strip("/")
        if path.rstrip("/") in self.failing:
            return Answer(error="the sandbox does not answer")
        if not folder.is_dir():
            return Answer(error=f"Path '{path}': path_not_found")
        return Answer([*(self._entry(child) for child in folder.iterdir()), *self.extra])

    def download_files(self, paths: list[str]) -> list[Answer]:
        """Read files."""
        return [self._download(path) for path in paths]

    def _entry(self, child: Path) -> dict[str, object]:
        name = f"/{child.relative_to(self.folder).as_posix()}"
        if child.is_dir():
            return {"path": f"{name}/", "is_dir": True}
        entry: dict[str, object] = {"path": name, "size": child.stat().st_size}
        return {**entry, "modified_at": str(child.stat().st_mtime_ns)} if self.dated else entry

    def _download(self, path: str) -> Answer:
        file = self.folder / path.strip("/")
        if path in self.failing:
            return Answer(error="permission_denied")
        return Answer(content=file.read_bytes()) if file.is_file() else Answer(error="file_not_found")
