"""Skills as MCP lists them (SEP-2640, skills.mdx, 3): entries with frontmatter, and a digest of every file.

{"uri": "skill://refunds/SKILL.md", "frontmatter": {...},
 "resources": [{"uri": "skill://refunds/SKILL.md", "digest": "sha256:...", "size": 136}, ...]}
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import msgspec

from skills_agent.mcp.json_fields import json_fields
from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.format.rules import FrontmatterError, is_spec_name
from skills_agent.skills.text import one_line

EXTENSION: Final = "io.modelcontextprotocol/skills"
VERSION: Final = "2026-07-28"
"""The first revision of MCP that has extensions."""
MAX_FILES: Final = 512
MAX_BYTES: Final = 16 * 1024 * 1024
"""Of one skill: what every host has to accept."""
MAX_URI: Final = 2_000
"""Characters."""
_MAX_FRONTMATTER: Final = 64 * 1024
"""Characters of a frontmatter as JSON."""
_MAX_DEPTH: Final = 20
"""Levels of lists and mappings in a frontmatter."""
_SKILL_FILE: Final = "SKILL.md"
_NAME: Final = re.compile(r"[^/\\:\ufffd]{1,255}")


class McpEntryError(DetailedError, SkillError):
    """An entry that breaks the specification: the skill is not used."""

    sentence = "{uri} cannot be used: {reason}."
    uri: str
    reason: str


class McpFile(msgspec.Struct, frozen=True):
    """A file of a skill on a server."""

    uri: str
    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
    """Over the bytes."""
    size: Annotated[int, msgspec.Meta(ge=0)]
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

    @property
    def skill_file(self) -> McpFile:
        """Return its SKILL.md."""
        return self.files[_SKILL_FILE]

    @property
    def digest(self) -> str:
        """Return what differs for any other set of files: `sha256:` over their digests and paths, by path."""
        lines = "".join(f"{self.files[path].digest}  {path}\n" for path in sorted(self.files))
        return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"

    def as_json(self) -> dict[str, Any]:
        """Return the entry as it is sent."""
        files = [self.files[path] for path in sorted(self.files)]
        frontmatter = dict(self.frontmatter)
        return {"uri": self.uri, "frontmatter": frontmatter, "resources": msgspec.to_builtins(files)}


def uri_of(name: str, path: str = _SKILL_FILE) -> str:
    """Return the URI of a file of a skill."""
    return f"skill://{name}/{quote(path)}"


def read_entry(value: object) -> McpEntry:
    """Read what a server sent; a stranger's word. Raises McpEntryError."""
    uri = value.get("uri") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(uri, str):
        raise McpEntryError("An entry", "it has no uri")
    shown = one_line(uri, 200)
    if not uri.isascii() or not uri.isprintable() or len(uri) > MAX_URI:
        raise McpEntryError(shown, "its uri is too long, or has characters that no URI has")
    frontmatter = value.get("frontmatter")
    if not isinstance(frontmatter, dict) or not is_spec_name(str(frontmatter.get("name"))):
        raise McpEntryError(shown, "its frontmatter has no name by the specification")
    _check_frontmatter(frontmatter, shown)
    if value.get("resources") == "dynamic":
        raise McpEntryError(shown, "its files are dynamic: what is approved could not be held to")
    folder, name = _folder_of(uri)
    if not folder or name != frontmatter["name"]:
        raise McpEntryError(shown, "the last part of its path is not its name")
    files = {}
    for file in _listed_files(value.get("resources"), shown):
        path = _path_in(folder, file.uri)
        if path is None or path in files:
            raise McpEntryError(shown, f"{one_line(file.uri, 200)} is there twice, or outside of the skill")
        files[path] = file
    if _SKILL_FILE not in files or files[_SKILL_FILE].uri != uri:
        raise McpEntryError(shown, "its own file is not among its files")
    if len(files) > MAX_FILES or sum(each.size for each in files.values()) > MAX_BYTES:
        raise McpEntryError(shown, f"it has more than {MAX_FILES} files, or {MAX_BYTES:,} bytes")
    return McpEntry(uri, frontmatter, files)


def check_content(file: McpFile, raw: bytes) -> None:
    """Hold what was read of a file against its entry. Raises McpEntryError."""
    if len(raw) != file.size:
        raise McpEntryError(
            one_line(file.uri, 200), f"{len(raw):,} bytes came, and {file.size:,} were listed"
        )
    if f"sha256:{hashlib.sha256(raw).hexdigest()}" != file.digest:
        raise McpEntryError(one_line(file.uri, 200), "it has not the digest that was listed")


def check_skill_file(entry: McpEntry, raw: bytes) -> None:
    """Hold a SKILL.md against its entry, and its frontmatter field by field. Raises McpEntryError."""
    check_content(entry.skill_file, raw)
    shown = one_line(entry.uri, 200)
    try:
        fields = json_fields(raw)
    except FrontmatterError as error:
        raise McpEntryError(shown, f"its frontmatter cannot be compared: {error}".rstrip(".")) from error
    names = [*fields, *(each for each in entry.frontmatter if each not in fields)]
    for name in names:
        is_in_both = name in fields and name in entry.frontmatter
        if not is_in_both or not _is_same(fields[name], entry.frontmatter[name]):
            raise McpEntryError(shown, f"{one_line(name, 80)} in its frontmatter is not what was listed")


def _is_same(one: object, other: object) -> bool:
    """Compare values of JSON: 1 is 1.0, and not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other


def _check_frontmatter(frontmatter: Mapping[str, Any], shown: str) -> None:
    try:
        is_bounded = len(json.dumps(frontmatter, ensure_ascii=False).encode()) <= _MAX_FRONTMATTER
    except (ValueError, RecursionError) as error:  # half a character, or too deep
        raise McpEntryError(shown, "its frontmatter is no text") from error
    if not is_bounded or _depth(frontmatter) > _MAX_DEPTH:
        raise McpEntryError(shown, "its frontmatter is too large, or too deep")


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _listed_files(value: object, shown: str) -> list[McpFile]:
    try:
        return msgspec.convert(value, list[McpFile])
    except ValueError as error:  # what does not fit, or half a character
        reason = "it has no list of its files, or a file of it has no uri, digest (sha256) and size"
        raise McpEntryError(shown, reason) from error


def _folder_of(uri: str) -> tuple[str, str]:
    """Return the URI of the folder of a SKILL.md with `/`, and the folder's name; empty for other URIs."""
    base = uri.removesuffix(_SKILL_FILE)
    try:
        parts = urlsplit(uri)
    except ValueError:  # as `skill://[x/SKILL.md`
        return "", ""
    if base == uri or not base.endswith("/") or not parts.scheme or parts.query or parts.fragment:
        return "", ""
    names = [each for each in (parts.netloc, *parts.path.split("/")[:-1]) if each]
    return base, unquote(names[-1]) if names else ""


def _path_in(folder: str, uri: str) -> str | None:
    """Return the path of a file in a skill; None for one that is not in its folder."""
    if not uri.startswith(folder) or "?" in uri or "#" in uri:
        return None
    parts = [unquote(each) for each in uri.removeprefix(folder).split("/")]
    if any(part in {"", ".", ".."} or not _NAME.fullmatch(part) or not part.isprintable() for part in parts):
        return None
    return "/".join(parts)
