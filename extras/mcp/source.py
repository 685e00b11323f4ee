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
from threading import Lock
from typing import Any, Final, TypeVar

import yaml
from mcp import Client

from skills_agent.mcp.entries import McpEntry, McpEntryError
from skills_agent.mcp.requests import McpList, get_skill, list_skills, read_files, read_skill_file
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.format.rules import Finding, diagnostic
from skills_agent.skills.skill import MCP_LABEL, Diagnostic
from skills_agent.skills.sources.fetched import missing
from skills_agent.skills.sources.protocol import Scan, SkillEntry, SkillFile, Source
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
KEEP_SECONDS: Final = 24 * 3600.0
"""How long the skills of a server that does not answer stay."""
FETCH_SECONDS: Final = 70.0
"""How long a load waits for a skill."""
_MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Of all SKILL.md files that stay in memory."""


class McpSource(Source):
    """The skills of one server. Nobody vouches for them."""

    trusted = False

    def __init__(
        self,
        server: str,
        ask: Ask,
        *,
        wait_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the server as the settings do; asks nothing yet. A first list is waited for `wait_seconds`."""
        self.label = f"{MCP_LABEL}{server}"
        self._ask = ask
        self._wait_seconds = self._patience = wait_seconds
        self._clock = clock
        self._lock = Lock()
        self._pending: Future[McpList] | None = None
        """A list that took longer than anybody waited for it."""
        self._due = 0.0
        """When the server is to be asked again."""
        self._look: Scan | None = None
        self._skills: Mapping[str, McpEntry] = {}
        """By URI, as the server was last seen."""
        self._latest_whole: tuple[float, Scan] | None = None
        self._read: dict[tuple[int, ...], bytes] = {}
        """SKILL.md files by the stamp of their skill."""

    def scan(self) -> Scan:
        """Return what the server lists. It is asked again when its list is too old."""
        with self._lock:
            now = self._clock()
            if self._look is None or now >= self._due:
                self._look = self._ask_for_list(now)
            return self._look

    def head(self, path: str) -> bytes:
        """Return the frontmatter of a skill as the server lists it: nothing is fetched for a catalog."""
        return _head_of(self._listed(path))

    def read(self, path: str, limit: int) -> bytes:
        return self._skill_file(self._listed(path))[:limit]

    def fetch(self, path: str) -> Iterator[SkillFile]:
        entry = self._listed(path)
        yield SkillFile(SKILL_FILE, self._skill_file(entry))
        own = {relative: file for relative, file in entry.files.items() if _is_own(entry, relative)}
        others = self._fetched(entry, lambda client: read_files(client, own))
        yield from starmap(SkillFile, others.items())

    def claims(self, path: str) -> bool:
        return "://" in path and path.endswith(f"/{SKILL_FILE}")

    def _listed(self, path: str) -> McpEntry:
        if self._look is None:
            self.scan()
        listed = self._skills.get(path)
        if listed is None:
            raise missing(path)
        return listed

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
            result: Result = self._ask(work).result(FETCH_SECONDS)
        except McpEntryError as error:
            raise OSError(errno.EIO, self._why_other(entry, error)) from error
        except TimeoutError as error:
            raise OSError(errno.ETIMEDOUT, f"{self._name} does not send it") from error
        except SkillsAgentError as error:
            raise OSError(errno.EIO, self._cause(error)) from error
        return result

    def _why_other(self, entry: McpEntry, error: McpEntryError) -> str:
        """Say why a skill is refused; the server is asked whether it has changed it, and for its list."""
        self._due = 0.0
        try:
            asked = self._ask(lambda client: get_skill(client, entry.uri))
            now: McpEntry | None = asked.result(self._wait_seconds)
        except (SkillsAgentError, TimeoutError):
            now = None
        if now is not None and (now.digest, now.frontmatter) != (entry.digest, entry.frontmatter):
            return f"{self._name} has changed it since it was listed; load it again"
        return f"{self._name} sends something else than it lists ({_phrase(error)})"

    def _ask_for_list(self, now: float) -> Scan:
        try:
            pending = self._pending = self._pending or self._ask(list_skills)
            listed = pending.result(self._patience)
        except TimeoutError:
            # It is waited for no more; a later look takes what has come by then.
            self._patience = 0.0
            return self._stand_in(now, f"{self._name} does not answer")
        except SkillsAgentError as error:
            self._pending = None
            return self._stand_in(now, self._cause(error))
        self._pending, self._patience = None, self._wait_seconds
        self._due = now + min(max(listed.ttl, SHORTEST_TTL), LONGEST_TTL)
        look = self._arrange(listed)
        self._latest_whole = (now, look)
        return look

    @property
    def _name(self) -> str:
        return f"MCP server {self.label.removeprefix(MCP_LABEL)}"

    def _stand_in(self, now: float, why: str) -> Scan:
        """Return the skills as they were last seen, while that is not too long ago."""
        self._due = now + RETRY_SECONDS
        if self._latest_whole is None or now - self._latest_whole[0] >= KEEP_SECONDS:
            self._skills = {}
            return Scan((), (self._diagnostic("source-unreachable", f"{why}."),))
        before = self._latest_whole[1]
        report = self._diagnostic(
            "source-unreachable", f"{why}. Its skills are shown as they were last seen."
        )
        return Scan(before.skills, (*before.diagnostics, report))

    def _arrange(self, listed: McpList) -> Scan:
        found = tuple(
            SkillEntry(entry.uri, entry.name, _stamp_of(entry), entry.skill_file.size)
            for entry in listed.entries
        )
        stamps = {skill.stamp for skill in found}
        self._read = {stamp: content for stamp, content in self._read.items() if stamp in stamps}
        self._skills = {entry.uri: entry for entry in listed.entries}
        reports = tuple(self._diagnostic("mcp-entry", visible_line(fault)) for fault in listed.faults)
        return Scan(found, reports)

    def _cause(self, error: SkillsAgentError) -> str:
        text = _phrase(error)
        return text if text.startswith(self._name) else f"{self._name}: {text[:1].lower()}{text[1:]}"

    def _diagnostic(self, code: str, message: str) -> Diagnostic:
        return diagnostic(Finding(code, message), self.label)


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
