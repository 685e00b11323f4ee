"""Skills as MCP lists them (SEP-2640, skills.mdx, 3): entries with frontmatter, and a digest of every file.

{"uri": "skill://refunds/SKILL.md", "frontmatter": {...},
 "resources": [{"uri": "skill://refunds/SKILL.md", "digest": "sha256:...", "size": 136}, ...]}
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.text import one_line

EXTENSION: Final = "io.modelcontextprotocol/skills"
VERSION: Final = "2026-07-28"
"""The first revision of MCP that has extensions."""
MAX_FILES: Final = 512
MAX_BYTES: Final = 16 * 1024 * 1024
"""Of one skill: what every host has to accept."""
_SKILL_FILE: Final = "SKILL.md"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class McpEntryError(DetailedError, SkillError):
    """An entry that breaks the specification: the skill is not used."""

    sentence = "{uri} cannot be used: {reason}."
    uri: str
    reason: str


class McpFile(NamedTuple):
    """A file of a skill on a server."""

    uri: str
    digest: str
    """`sha256:` and 64 hexadecimal digits, over the bytes."""
    size: int
    """Bytes."""


class McpEntry(NamedTuple):
    """A skill on a server."""

    uri: str
    """Of its SKILL.md. With the label of the server it is the skill's identity."""
    frontmatter: Mapping[str, Any]
    """Every field, as JSON."""
    files: Mapping[str, McpFile]
    """Every file by its path in the skill, SKILL.md among them."""

    @property
    def name(self) -> str:
        """Return the name in the frontmatter."""
        return str(self.frontmatter["name"])

    def as_json(self) -> dict[str, Any]:
        """Return the entry as it is sent."""
        files = [self.files[path]._asdict() for path in sorted(self.files)]
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": files}


def uri_of(name: str, path: str = _SKILL_FILE) -> str:
    """Return the URI of a file of a skill."""
    return f"skill://{name}/{quote(path)}"


def read_entry(value: object) -> McpEntry:
    """Read what a server sent; a stranger's word. Raises McpEntryError."""
    uri = value.get("uri") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(uri, str):
        raise McpEntryError("An entry", "it has no uri")
    shown = one_line(uri, 200)
    frontmatter = value.get("frontmatter")
    if not isinstance(frontmatter, dict) or not is_spec_name(str(frontmatter.get("name"))):
        raise McpEntryError(shown, "its frontmatter has no name by the specification")
    if value.get("resources") == "dynamic":
        raise McpEntryError(shown, "its files are dynamic: what is approved could not be held to")
    folder, name = _folder_of(uri)
    if not folder or name != frontmatter["name"]:
        raise McpEntryError(shown, "the last part of its path is not its name")
    files = {}
    for each in _list_of(value.get("resources"), shown):
        file = _file(each, shown)
        path = _path_in(folder, file.uri)
        if path is None or path in files:
            raise McpEntryError(shown, f"{one_line(file.uri, 200)} is there twice, or outside of the skill")
        files[path] = file
    if _SKILL_FILE not in files or files[_SKILL_FILE].uri != uri:
        raise McpEntryError(shown, "its own file is not among its files")
    if len(files) > MAX_FILES or sum(each.size for each in files.values()) > MAX_BYTES:
        raise McpEntryError(shown, f"it has more than {MAX_FILES} files, or {MAX_BYTES:,} bytes")
    return McpEntry(uri, frontmatter, files)


def _list_of(value: object, shown: str) -> list[object]:
    if not isinstance(value, list):
        raise McpEntryError(shown, "it has no list of its files")
    return value


def _file(value: object, shown: str) -> McpFile:
    match value:
        case {"uri": str(uri), "digest": str(digest), "size": int(size)} if (
            _DIGEST.fullmatch(digest) and size >= 0 and not isinstance(size, bool)
        ):
            return McpFile(uri, digest, size)
    raise McpEntryError(shown, "a file of it has no uri, digest (sha256) and size")


def _folder_of(uri: str) -> tuple[str, str]:
    """Return the URI of the folder of a SKILL.md with `/`, and the folder's name; empty for other URIs."""
    base = uri.removesuffix(_SKILL_FILE)
    parts = urlsplit(uri)
    if base == uri or not base.endswith("/") or not parts.scheme or parts.query or parts.fragment:
        return "", ""
    names = [each for each in (parts.netloc, *parts.path.split("/")[:-1]) if each]
    return base, unquote(names[-1]) if names else ""


def _path_in(folder: str, uri: str) -> str | None:
    """Return the path of a file in a skill; None for one that is not in its folder."""
    if not uri.startswith(folder) or "?" in uri or "#" in uri:
        return None
    parts = [unquote(each) for each in uri.removeprefix(folder).split("/")]
    if any(part in {"", ".", ".."} or "/" in part or "\\" in part for part in parts):
        return None
    return "/".join(parts)
