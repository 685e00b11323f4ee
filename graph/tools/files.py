"""The host's file tools, confined to the workspace: read_file, list_dir, grep, write_file."""

from typing import Annotated, Any

from langchain_core.tools import BaseTool, ToolException
from pydantic import Field

from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.excerpt import excerpt
from skills_agent.graph.tools.images import image_content, image_type
from skills_agent.graph.tools.search import Search
from skills_agent.graph.tools.workspace import FolderEntry, Workspace
from skills_agent.skills.text import one_line

MAX_FILE_BYTES = 10_000_000
MAX_ENTRIES = 500

READ_FILE = "Read a text file of the workspace, whole or some of its lines."
LIST_DIR = "List a folder of the workspace."
GREP = (
    "Search the files of the workspace for a regular expression (Python syntax), line by line. "
    "Gives path:line: text. Skips hidden folders and binary files."
)
WRITE_FILE = "Write a text file of the workspace, replacing it if it exists; makes missing folders."

Start = Annotated[int | None, Field(description="First line, from 1")]
Lines = Annotated[int | None, Field(description="How many lines")]
Glob = Annotated[str | None, Field(description="Only these files, e.g. *.py or docs/**/*.md")]


def file_tools(workspace: Workspace, search: Search, *, images: bool = False) -> list[BaseTool]:
    """Return the four tools; with `images`, read_file shows images to the model."""
    tools = _FileTools(workspace, search, images)
    return [
        declare(tools.read_file, description=READ_FILE),
        declare(tools.list_dir, description=LIST_DIR),
        declare(tools.grep, description=GREP),
        declare(tools.write_file, description=WRITE_FILE),
    ]


class _FileTools:
    def __init__(self, workspace: Workspace, search: Search, images: bool) -> None:
        self._workspace = workspace
        self._search = search
        self._images = images

    def read_file(self, path: str, start: Start = None, lines: Lines = None) -> str | list[dict[str, Any]]:
        """Give a file as text, bounded; a binary file is named, not pasted."""
        raw = self._workspace.read(path, MAX_FILE_BYTES)
        if self._images and (kind := image_type(raw)):
            return image_content(path, raw, kind)
        if b"\0" in raw:
            raise ToolException(f"{path} is a binary file of {len(raw):,} bytes, not text to read.")
        if not raw:
            return f"[{path} is empty]"
        return excerpt(raw.decode("utf-8-sig", errors="replace").replace("\r\n", "\n"), start, lines)

    def list_dir(self, path: str = ".") -> str:
        """Give the names in a folder, folders first, bounded."""
        entries = sorted(
            self._workspace.entries(path), key=lambda entry: (entry.kind != "folder", entry.name)
        )
        shown = [_listed(entry) for entry in entries[:MAX_ENTRIES]]
        if len(entries) > MAX_ENTRIES:
            shown.append(f"[{len(entries) - MAX_ENTRIES} more]")
        return "\n".join(shown) or f"[{path} is empty]"

    def grep(self, pattern: str, path: str = ".", ignore_case: bool = False, glob: Glob = None) -> str:
        """Give the lines that match, bounded in number, size and time."""
        return self._search.lines(self._workspace.real(path), pattern, ignore_case=ignore_case, glob=glob)

    def write_file(self, path: str, content: str) -> str:
        """Put a file in place whole, and say what is there now."""
        raw = content.encode("utf-8", errors="replace")
        if len(raw) > MAX_FILE_BYTES:
            raise ToolException(
                f"{len(raw):,} bytes are over the limit of {MAX_FILE_BYTES:,}. Nothing was written."
            )
        new = self._workspace.write(path, raw)
        lines = len(content.splitlines())
        counted = f"{lines} line" if lines == 1 else f"{lines} lines"
        return f"{'Wrote' if new else 'Replaced'} {path}: {len(raw):,} bytes, {counted}."


def _listed(entry: FolderEntry) -> str:
    name = one_line(entry.name)
    match entry.kind:
        case "folder":
            return f"{name}/"
        case "file":
            return f"{name} ({entry.size:,} bytes)"
        case _:
            return f"{name} ({entry.kind})"
