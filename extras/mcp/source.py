"""Skills that a server of MCP publishes (SEP-2640), as a source.

    McpSource("notes", ask)         # of the server that the settings name `notes`

The list's frontmatter is all that is known of a skill until it is loaded. Its files are fetched then, and
held against what was listed: the length and digest of each, and the frontmatter field by field. A server that
does not answer hides nothing for a day, and keeps nobody waiting twice.

Imports the SDK (the extra `mcp`), so only functions import this.
"""

import errno
import hashlib
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from itertools import starmap
from typing import Any, Final, TypeVar

import yaml
from mcp import Client

from skills_agent.mcp.entries import MAX_URI, McpEntry, McpEntryError
from skills_agent.mcp.requests import McpList, get_skill, list_skills, read_files, read_skill_file
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.skill import MCP_LABEL
from skills_agent.skills.sources.fetched import FetchedSource, ListedFile, Listing, missing
from skills_agent.skills.sources.protocol import SkillFile
from skills_agent.skills.sources.walk import OWN_FOLDERS, SKILL_FILE
from skills_agent.skills.text import one_line
from skills_agent.skills.visible import visible_line

Result = TypeVar("Result")
Work = Callable[[Client], Coroutine[Any, Any, Result]]
Ask = Callable[[Work[Any]], "Future[Any]"]
"""Does something with the client of a server; raises SkillsAgentError, or its future does."""

SHORTEST_TTL: Final = 5.0
LONGEST_TTL: Final = 3600.0
"""Seconds that a list is kept, whatever the server says."""
RETRY_SECONDS: Final = 30.0
"""Between two attempts to list a server that did not answer."""
FETCH_SECONDS: Final = 70.0
"""How long a load waits for a skill."""
_MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Of all SKILL.md files that stay in memory."""


class McpSource(FetchedSource):
    """The skills of one server. Nobody vouches for them."""

    max_depth = MAX_URI
    unreachable = "{}."  # a cause names the server

    def __init__(
        self,
        server: str,
        ask: Ask,
        *,
        wait_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the server as the settings do; asks nothing yet. A first list is waited for `wait_seconds`."""
        label = f"{MCP_LABEL}{server}"
        super().__init__(label, label, trusted=False, clock=clock)
        self._name = f"MCP server {server}"
        self._begin = ask
        self._wait_seconds = self._patience = wait_seconds
        self._pending: Future[McpList] | None = None
        """A list that took longer than anybody waited for it."""
        self._entries: Mapping[str, McpEntry] = {}
        """By URI, as the server was last seen."""
        self._read: dict[tuple[int, ...], bytes] = {}
        """SKILL.md files by the stamp of their skill."""

    def head(self, path: str) -> bytes:
        """Return the frontmatter of a skill as the server lists it: nothing is fetched for a catalog."""
        return _head_of(self._entry(path))

    def fetch(self, path: str) -> Iterator[SkillFile]:
        entry = self._entry(path)
        yield SkillFile(SKILL_FILE, self._skill_file(entry))
        own = {relative: file for relative, file in entry.files.items() if _is_own(entry, relative)}
        others = self._fetched(entry, lambda client: read_files(client, own))
        yield from starmap(SkillFile, others.items())

    def claims(self, path: str) -> bool:
        return "://" in path and path.endswith(f"/{SKILL_FILE}")

    def _path(self, relative: str) -> str:
        return relative

    def _entry(self, path: str) -> McpEntry:
        entry = self._entries.get(self._look().relative(path))
        if entry is None:
            raise missing(path)
        return entry

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        return self._skill_file(self._entry(file.key[0]))[:limit]

    def _skill_file(self, entry: McpEntry) -> bytes:
        stamp = _stamp_of(entry)
        if (known := self._read.get(stamp)) is not None:
            return known
        content = self._fetched(entry, lambda client: read_skill_file(client, entry))
        if len(content) + sum(map(len, list(self._read.values()))) <= _MAX_KEPT_BYTES:
            self._read[stamp] = content
        return content

    def _fetched(self, entry: McpEntry, work: Work[Result]) -> Result:
        """Do what reads files of a skill; one that is not what was listed is an OSError, and listed anew."""
        try:
            result: Result = self._begin(work).result(FETCH_SECONDS)
        except McpEntryError as error:
            raise OSError(errno.EIO, self._why_other(entry, error)) from error
        except TimeoutError as error:
            raise OSError(errno.ETIMEDOUT, f"{self._name} does not send it") from error
        except SkillsAgentError as error:
            raise OSError(errno.EIO, self._cause(error)) from error
        return result

    def _why_other(self, entry: McpEntry, error: McpEntryError) -> str:
        """Say why a skill is refused; the server is asked whether it has changed it, and for its list."""
        self._fresh_seconds = 0.0
        try:
            asked = self._begin(lambda client: get_skill(client, entry.uri))
            now: McpEntry | None = asked.result(self._wait_seconds)
        except (SkillsAgentError, TimeoutError):
            now = None
        if now is not None and (now.digest, now.frontmatter) != (entry.digest, entry.frontmatter):
            return f"{self._name} has changed it since it was listed; load it again"
        return f"{self._name} sends something else than it lists ({_phrase(error)})"

    def _list(self) -> Listing:
        self._fresh_seconds = RETRY_SECONDS
        try:
            pending = self._pending = self._pending or self._begin(list_skills)
            listed = pending.result(self._patience)
        except TimeoutError as error:
            # It is waited for no more; a later look takes what has come by then.
            self._patience = 0.0
            raise OSError(errno.ETIMEDOUT, f"{self._name} does not answer") from error
        except SkillsAgentError as error:
            self._pending = None
            raise OSError(errno.EIO, self._cause(error)) from error
        self._pending, self._patience = None, self._wait_seconds
        self._fresh_seconds = min(max(listed.ttl, SHORTEST_TTL), LONGEST_TTL)
        self._entries = {entry.uri: entry for entry in listed.entries}
        listing = Listing(self.place)
        for uri, entry in self._entries.items():
            listing.files[uri] = ListedFile((uri,), entry.skill_file.size, _stamp_of(entry))
        stamps = {file.stamp for file in listing.files.values()}
        self._read = {stamp: content for stamp, content in self._read.items() if stamp in stamps}
        for fault in listed.faults:
            listing.report("mcp-entry", visible_line(fault))
        return listing

    def _cause(self, error: SkillsAgentError) -> str:
        text = _phrase(error)
        return text if text.startswith(self._name) else f"{self._name}: {text[:1].lower()}{text[1:]}"


def _head_of(entry: McpEntry) -> bytes:
    """Return the frontmatter, fences and all."""
    fields = yaml.safe_dump(dict(entry.frontmatter), allow_unicode=True, sort_keys=False, width=1_000_000)
    return f"---\n{fields}---\n".encode()


def _stamp_of(entry: McpEntry) -> tuple[int, ...]:
    """Return what differs for another frontmatter, and for other files."""
    digest = hashlib.sha256(_head_of(entry) + entry.digest.encode()).digest()
    return (int.from_bytes(digest[:8]), int.from_bytes(digest[8:16]))


def _is_own(entry: McpEntry, path: str) -> bool:
    """Return whether a file is the skill's own: not its SKILL.md, and not of a skill that is nested in it."""
    if path == SKILL_FILE:
        return False
    folders = path.split("/")[:-1]
    if folders and folders[0] in OWN_FOLDERS:
        return True
    return not any(
        "/".join([*folders[:end], SKILL_FILE]) in entry.files for end in range(1, len(folders) + 1)
    )


def _phrase(error: SkillsAgentError) -> str:
    return visible_line(one_line(str(error), 400)).rstrip(".")
