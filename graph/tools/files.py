"""The tools for files of the workspace: read_file, list_dir, grep, write_file, edit_file."""

from dataclasses import dataclass
from typing import Any, Final

from langchain_core.tools import ToolException

from skills_agent.graph.tools.content import Lines, Start, excerpt, image_content, image_type
from skills_agent.graph.tools.edit import MAX_EDITED, Edited, Replacement
from skills_agent.graph.tools.grep import search
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.skills.text import count

MAX_FILE_BYTES: Final = 10_000_000
MAX_ENTRIES: Final = 500

Glob = str | None
"""Of paths, such as docs/**/*.md."""


@dataclass(frozen=True)
class FileTools:
    """What the five tools do."""

    workspace: Workspace
    images: bool = False
    """Whether read_file shows images to the model."""
    grep_seconds: float = 5

    def read_file(self, path: str, start: Start = None, lines: Lines = None) -> str | list[dict[str, Any]]:
        """Read a file of the working folder."""
        raw = self.workspace.read(path, MAX_FILE_BYTES)
        if self.images and (kind := image_type(raw)):
            return image_content(path, raw, kind)
        if b"\0" in raw:
            raise ToolException(f"{path} is a binary file of {len(raw):,} bytes, not text to read.")
        if not raw:
            return f"[{path} is empty]"
        return excerpt(raw.decode("utf-8-sig", errors="replace").replace("\r\n", "\n"), start, lines)

    def list_dir(self, path: str = ".") -> str:
        """List a folder."""
        lines = self.workspace.list(path)
        shown = lines[:MAX_ENTRIES]
        if len(lines) > MAX_ENTRIES:
            shown.append(f"[{len(lines) - MAX_ENTRIES} more]")
        return "\n".join(shown) or f"[{path} is empty]"

    def grep(self, pattern: str, path: str = ".", ignore_case: bool = False, glob: Glob = None) -> str:
        """Search the lines of files for a regular expression (RE2)."""
        return search(
            self.workspace, path, pattern, ignore_case=ignore_case, glob=glob, seconds=self.grep_seconds
        )

    def write_file(self, path: str, content: str) -> str:
        """Write a whole text file."""
        raw = content.encode("utf-8", errors="replace")
        if len(raw) > MAX_FILE_BYTES:
            raise ToolException(
                f"{len(raw):,} bytes are over the limit of {MAX_FILE_BYTES:,}. Nothing was written."
            )
        with self.workspace.changing:
            new = self.workspace.write(path, raw)
        lines = count(len(content.splitlines()), "line")
        return f"{'Wrote' if new else 'Replaced'} {path}: {len(raw):,} bytes, {lines}."

    def edit_file(self, path: str, edits: list[Replacement]) -> str:
        """Replace texts in a file; each old_string has to be in it once, exactly."""
        with self.workspace.changing:
            new = Edited.of(self.workspace.read(path, MAX_EDITED), edits, path)
            self.workspace.write(path, new.text.encode())
        return f"Edited {path}: {new.summary}."
