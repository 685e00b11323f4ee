"""Ask a server of MCP for its skills (SEP-2640), with the SDK's client: what comes is a stranger's word.

The messages are those that `serving.py` answers with.

Imports the SDK (the extra `mcp`), so only functions import this.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from mcp import Client
from mcp_types import (
    CacheableResult,
    PaginatedRequestParams,
    PaginatedResult,
    ReadResourceRequestParams,
    Request,
)

from skills_agent.mcp.entries import (
    EXTENSION,
    VERSION,
    McpEntry,
    McpEntryError,
    McpFile,
    check_content,
    check_skill_file,
    read_entry,
)
from skills_agent.skills.errors import SkillError
from skills_agent.skills.text import one_line

MAX_PAGES: Final = 100
MAX_SKILLS: Final = 2_000
MAX_FAULTS: Final = 20
LIST_SECONDS: Final = 30.0
"""For a whole list."""
FETCH_SECONDS: Final = 60.0
"""For all files of a skill."""


class McpList(NamedTuple):
    """The skills of a server at one time."""

    entries: tuple[McpEntry, ...]
    """By URI."""
    faults: tuple[str, ...]
    """What of the list is not used, and why; sentences."""
    ttl: float
    """Seconds that the server lets it be kept."""


class ListResult(PaginatedResult, CacheableResult):
    """A page of the list."""

    skills: list[Any]
    result_type: Literal["complete"] = "complete"


class GetResult(CacheableResult):
    """One skill."""

    skill: Any
    result_type: Literal["complete"] = "complete"


async def list_skills(client: Client) -> McpList:
    """Return the skills that a server lists. Raises SkillError, TimeoutError and what the client raises.

    An entry that breaks the specification is a fault in words, and hides none of the others.
    """
    _check_declared(client)
    found: dict[str, McpEntry] = {}
    faults: list[str] = []
    cursors: set[str] = set()
    cursor: str | None = None
    async with asyncio.timeout(LIST_SECONDS):
        for _ in range(MAX_PAGES):
            asked = Request[PaginatedRequestParams, str](
                method="skills/list", params=PaginatedRequestParams(cursor=cursor)
            )
            page = await client.session.send_request(asked, ListResult)
            _add(page.skills, found, faults)
            cursor = page.next_cursor
            if cursor is None or len(found) >= MAX_SKILLS:
                break
            if cursor in cursors:
                faults.append("Its list goes in a circle: what comes after that is not known.")
                cursor = None
                break
            cursors.add(cursor)
    if cursor is not None:
        faults.append(
            f"Its list is longer than {MAX_SKILLS:,} skills or {MAX_PAGES} pages: the rest is left."
        )
    entries = tuple(found[uri] for uri in sorted(found)[:MAX_SKILLS])
    return McpList(entries, tuple(dict.fromkeys(faults))[:MAX_FAULTS], (page.ttl_ms or 0) / 1000)


async def get_skill(client: Client, uri: str) -> McpEntry:
    """Return one skill as it is now. Raises McpEntryError, and as `list_skills` does."""
    _check_declared(client)
    async with asyncio.timeout(LIST_SECONDS):
        asked = Request[ReadResourceRequestParams, str](
            method="skills/get", params=ReadResourceRequestParams(uri=uri)
        )
        result = await client.session.send_request(asked, GetResult)
    entry = read_entry(result.skill)
    if entry.uri != uri:
        raise McpEntryError(one_line(uri, 200), "the server answered with another skill")
    return entry


async def read_skill_file(client: Client, entry: McpEntry) -> bytes:
    """Return a SKILL.md that is what its entry says. Raises McpEntryError, and as `list_skills` does."""
    async with asyncio.timeout(FETCH_SECONDS):
        raw = await _read(client, entry.skill_file)
    check_skill_file(entry, raw)
    return raw


async def read_files(client: Client, files: Mapping[str, McpFile]) -> dict[str, bytes]:
    """Return files by their path, each what its entry says. Raises as `read_skill_file` does."""
    read = {}
    async with asyncio.timeout(FETCH_SECONDS):
        for path, file in files.items():
            read[path] = await _read(client, file)
            check_content(file, read[path])
    return read


async def _read(client: Client, file: McpFile) -> bytes:
    result = await client.read_resource(file.uri, cache_mode="bypass")
    shown = one_line(file.uri, 200)
    if len(result.contents) != 1 or result.contents[0].uri != file.uri:
        raise McpEntryError(shown, "the server answered with something else")
    (content,) = result.contents
    try:
        if (text := getattr(content, "text", None)) is not None:
            return str(text).encode()
        return base64.b64decode(getattr(content, "blob", ""), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError) as error:
        raise McpEntryError(shown, "what came is neither text nor base64") from error


def _check_declared(client: Client) -> None:
    capabilities = client.server_capabilities
    if EXTENSION not in (capabilities.extensions or {}):
        old = "" if client.protocol_version >= VERSION else f": it speaks MCP {client.protocol_version}"
        raise SkillError(f"It publishes no skills{one_line(old, 80)}.")


def _add(skills: list[Any], found: dict[str, McpEntry], faults: list[str]) -> None:
    for skill in skills:
        if len(found) > MAX_SKILLS or len(faults) > MAX_FAULTS:
            return
        try:
            entry = read_entry(skill)
        except McpEntryError as error:
            faults.append(str(error))
            continue
        if found.setdefault(entry.uri, entry) is not entry:
            faults.append(f"{one_line(entry.uri, 200)} is listed twice: the first counts.")
