"""Servers of MCP that publish skills (SEP-2640): `mcp+https://host/path`.

What a skill was resolved to is its URI and, behind `#`, the digest of its set of files (`McpEntry.digest`).
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from skills_agent.mcp.entries import EXTENSION, McpEntry
from skills_agent.mcp.http import address_streams
from skills_agent.packages.credentials import split_credentials
from skills_agent.packages.download import SECONDS, Site
from skills_agent.packages.entry_names import EntryNames
from skills_agent.packages.errors import OfferError, PackageError
from skills_agent.packages.offer import Listed, Offer, Wanted
from skills_agent.packages.staging import stage
from skills_agent.skills.errors import SkillError, list_names
from skills_agent.skills.network.addresses import Pin
from skills_agent.skills.network.agent_proxy import proxy_for
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import one_line
from skills_agent.skills.visible import visible_line

if TYPE_CHECKING:
    from mcp import Client

    from skills_agent.mcp.requests import McpList

Result = TypeVar("Result")
MAX_BYTES: Final = 256 * 1024 * 1024
"""Of all skills that are fetched at a time."""
_LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def from_mcp(wanted: Wanted) -> Offer:
    """Offer the skills that a server publishes, each file held against its digest. Raises PackageError."""
    url, authorization = split_credentials(wanted.address.place)
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOCAL):
        raise OfferError(wanted.address.text, "write mcp+https://; mcp+http:// is for this machine alone")
    pin = Site(wanted.address).check(url)
    if pin and proxy_for(pin.target, os.environ):  # it resolves names by itself
        pin = None
    server = _Server(url, _headers(url, authorization, wanted), wanted, pin)
    if wanted.resolved:
        entries = [server.locked()]
    else:
        listed = server.list()
        if not wanted.names:
            faults = (OfferError(wanted.address.text, each.rstrip(".")) for each in listed.faults)
            wanted.pass_over(faults, listed.entries)
        named = [Listed(each.name, str(each.frontmatter.get("description", ""))) for each in listed.entries]
        entries = _chosen(listed, wanted.among(named))
    tree = wanted.into / "server"
    reasons: list[PackageError] = []
    for number, entry in enumerate(entries):
        try:
            _write(server.files(entry), tree / str(number) / entry.name, wanted)
        except PackageError as error:
            reasons.append(error)
    wanted.pass_over(reasons, entries[len(reasons) :])
    resolved = {each.name: f"{each.uri}#{each.digest}" for each in entries}
    staged = stage(tree, wanted._replace(choose=None))
    skills = [each._replace(resolved=resolved[each.name], path="") for each in staged]
    return Offer(wanted.address, tuple(skills))


def _headers(url: str, authorization: str, wanted: Wanted) -> dict[str, str]:
    """Return what the settings have for a server; a user that was typed takes the place of theirs."""
    headers = dict(wanted.headers(url))
    if authorization:
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        headers["Authorization"] = authorization
    return headers


class _Server:
    """A server, and a connection for each thing that is asked: a person may think in between."""

    def __init__(self, url: str, headers: Mapping[str, str], wanted: Wanted, pin: Pin | None) -> None:
        self._url = url
        self._headers = headers
        self._wanted = wanted
        self._pin = pin

    def list(self) -> "McpList":
        async def ask(client: "Client") -> "McpList":
            from skills_agent.mcp.requests import list_skills  # noqa: PLC0415

            return await list_skills(client)

        return self._ask(ask)

    def locked(self) -> McpEntry:
        """Return the entry that is wanted exactly. Raises OfferError where it is another one now."""
        uri, _, digest = self._wanted.resolved.partition("#")

        async def ask(client: "Client") -> McpEntry:
            from skills_agent.mcp.requests import get_skill  # noqa: PLC0415

            return await get_skill(client, uri)

        entry = self._ask(ask)
        if entry.digest != digest:
            reason = f"the server has other files for {one_line(uri, 200)} now"
            raise OfferError(self._wanted.address.text, reason)
        return entry

    def files(self, entry: McpEntry) -> dict[str, bytes]:
        async def ask(client: "Client") -> dict[str, bytes]:
            from skills_agent.mcp.requests import (  # noqa: PLC0415
                read_files,
                read_skill_file,
            )

            others = {path: file for path, file in entry.files.items() if path != SKILL_FILE}
            return {SKILL_FILE: await read_skill_file(client, entry), **await read_files(client, others)}

        return self._ask(ask)

    def _ask(self, work: "Callable[[Client], Coroutine[Any, Any, Result]]") -> Result:
        try:
            return asyncio.run(self._answer(work))
        except Exception as error:
            leaf = next(_leaves(error))
            text = str(leaf) if isinstance(leaf, SkillError) else f"the server does not answer ({leaf})"
            if isinstance(leaf, ImportError):
                text = "the SDK of MCP is missing: pip install 'skills-agent[mcp]'"
            elif isinstance(leaf, TimeoutError):
                text = "the server does not answer in time"
            reason = visible_line(one_line(text, 400)).rstrip(".")
            raise OfferError(self._wanted.address.text, reason) from error

    async def _answer(self, work: "Callable[[Client], Coroutine[Any, Any, Result]]") -> Result:
        from mcp import Client  # noqa: PLC0415 - of the extra `mcp`, as what follows
        from mcp.client.extension import advertise  # noqa: PLC0415

        streams = address_streams(self._url, self._headers, self._pin)
        async with (
            asyncio.timeout(SECONDS),
            Client(streams, cache=None, extensions=[advertise(EXTENSION)]) as client,
        ):
            return await work(client)


def _chosen(listed: "McpList", wanted: Wanted) -> "list[McpEntry]":
    """Return the entries of the wanted skills. Raises OfferError."""
    package = wanted.address.text
    names = [each.name for each in listed.entries]
    chosen = [each for each in listed.entries if not wanted.names or each.name in wanted.names]
    if missing := sorted(wanted.names.difference(names)):
        offered = f"it has {list_names(sorted(names))}" if names else "it has no skill"
        reasons = [f"there is no {missing[0]} in it: {offered}", *listed.faults[:1]]
        raise OfferError(package, "; ".join(reasons).rstrip("."))
    if not chosen:
        raise OfferError(package, "the server publishes no skill")
    if twice := next((each.name for each in chosen if names.count(each.name) > 1), ""):
        raise OfferError(package, f"the server has two skills named {twice}")
    for each in chosen:
        if len(each.files) > wanted.limits.max_files or _size(each) > wanted.limits.max_bytes:
            reason = f"{each.name} has {len(each.files)} files and {_size(each):,} bytes, over the limits"
            raise OfferError(package, reason)
    if sum(map(_size, chosen)) > MAX_BYTES:
        raise OfferError(package, f"its skills are over {MAX_BYTES:,} bytes; name those that you want")
    return chosen


def _size(entry: McpEntry) -> int:
    return sum(each.size for each in entry.files.values())


def _write(files: dict[str, bytes], folder: Path, wanted: Wanted) -> None:
    """Write a skill as its server has it; its names are checked before the first byte is written."""
    names = EntryNames(wanted.address.text)
    for path in files:
        names.add(path)
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.write(content)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
