"""A server of MCP that publishes skills (SEP-2640): any client lists, reads and verifies them.

Clients that are older than extensions see the same files as plain resources.
"""

import base64
import mimetypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    BlobResourceContents,
    ListResourcesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skills_agent.mcp.entries import EXTENSION
from skills_agent.mcp.published import PublishedSkill, Publisher
from skills_agent.mcp.requests import GetResult, ListResult
from skills_agent.skills.text import one_line

_PAGE: Final = 100
"""Skills of one answer."""
_TTL: Final = 5_000
"""Milliseconds that a list may be kept: skills change while somebody writes them."""

Result = TypeVar("Result")
Skills = Mapping[str, PublishedSkill]
"""What is published now, by URI."""


def skills_server(publisher: Publisher, version: str) -> Server[Any]:
    """Return a server that publishes what the publisher has at each moment."""
    server: Server[Any] = Server(
        "skills-agent",
        version=version,
        on_list_resources=partial(_list_resources, publisher),
        on_read_resource=partial(_read, publisher),
    )
    server.extensions[EXTENSION] = {}
    methods: dict[str, tuple[type[Any], Callable[[Skills, Any], Any]]] = {
        "skills/list": (PaginatedRequestParams, _list),
        "skills/get": (ReadResourceRequestParams, _get),
    }
    for method, (params, handler) in methods.items():
        server.add_request_handler(method, params, _for_new_clients(publisher, handler))
    return server


async def _skills(publisher: Publisher) -> Skills:
    return await _in_thread(publisher.skills, "The skills cannot be read now.")


def _list(skills: Skills, params: PaginatedRequestParams) -> ListResult:
    uris = sorted(skills)
    start = _start(uris, params.cursor)
    entries = [skills[uri].entry.as_json() for uri in uris[start : start + _PAGE]]
    following = uris[start + _PAGE] if start + _PAGE < len(uris) else None
    return ListResult(skills=entries, next_cursor=following, ttl_ms=_TTL, cache_scope="private")


def _get(skills: Skills, params: ReadResourceRequestParams) -> GetResult:
    skill = skills.get(params.uri)
    if skill is None:
        raise MCPError(code=INVALID_PARAMS, message=f"There is no skill {one_line(params.uri, 200)}.")
    return GetResult(skill=skill.entry.as_json(), ttl_ms=_TTL, cache_scope="private")


async def _list_resources(
    publisher: Publisher, context: Any, params: PaginatedRequestParams | None
) -> ListResourcesResult:
    del context, params
    resources = [
        Resource(uri=file.uri, name=f"{skill.entry.name}/{path}", mime_type=_type(path), size=file.size)
        for _, skill in sorted((await _skills(publisher)).items())
        for path, file in sorted(skill.entry.files.items())
    ]
    return ListResourcesResult(resources=resources, ttl_ms=_TTL, cache_scope="private")


async def _read(publisher: Publisher, context: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
    del context
    for skill in (await _skills(publisher)).values():
        for path, file in skill.entry.files.items():
            if file.uri == params.uri:
                raw = await _in_thread(
                    partial(skill.read, path), "It cannot be read now: list the skills anew."
                )
                content = _content(file.uri, path, raw)
                return ReadResourceResult(contents=[content], ttl_ms=_TTL, cache_scope="private")
    raise MCPError(code=INVALID_PARAMS, message=f"There is no file {one_line(params.uri, 200)}.")


async def _in_thread(read: Callable[[], Result], otherwise: str) -> Result:
    try:
        return await to_thread.run_sync(read)
    except OSError as error:  # which names a place of this machine
        raise MCPError(code=INTERNAL_ERROR, message=otherwise) from error


def _for_new_clients(
    publisher: Publisher, handler: Callable[[Skills, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Serve a method of the extension to clients of a revision that has extensions."""

    async def handle(context: Any, params: Any) -> Any:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(code=METHOD_NOT_FOUND, message="Skills are listed from MCP 2026-07-28 on.")
        return handler(await _skills(publisher), params)

    return handle


def _start(uris: list[str], cursor: str | None) -> int:
    """Return where a page begins: the first URI from the cursor on, also when that skill is gone."""
    return next((at for at, uri in enumerate(uris) if cursor is None or uri >= cursor), len(uris))


def _content(uri: str, path: str, raw: bytes) -> TextResourceContents | BlobResourceContents:
    try:
        return TextResourceContents(uri=uri, mime_type=_type(path), text=raw.decode("utf-8"))
    except UnicodeDecodeError:
        return BlobResourceContents(uri=uri, mime_type=_type(path), blob=base64.b64encode(raw).decode())


def _type(path: str) -> str:
    return (
        "text/markdown"
        if path.endswith(".md")
        else mimetypes.guess_type(path)[0] or "application/octet-stream"
    )
