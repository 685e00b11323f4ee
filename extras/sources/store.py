"""Skills in LangGraph's `BaseStore`: the way they live on a Platform deployment, one namespace a user.

A skill is the items of one namespace: `("skills", "<user>", "csv-report")` holds the keys `SKILL.md`,
`scripts/profile.py`, ... with `{"content": "<text>"}` or `{"content": "<base64>", "encoding": "base64"}`.
Deeper namespaces are folders. Items of the source's own namespace may be named by whole paths
(`/skills/csv-report/SKILL.md`) and hold a list of lines, as deepagents' StoreBackend stores them.
"""

import base64
import binascii
import errno
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from langgraph.store.base import BaseStore, Item

from skills_agent.skills.errors import SkillError
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.fetched import (
    MAX_FILE_BYTES,
    MAX_FILES,
    FetchedSource,
    ListedFile,
    Listing,
    missing,
)
from skills_agent.skills.sources.namespaces import Namespace, checked_namespace, user_namespace
from skills_agent.sources.clients import raising_os_errors

_NOT_PUBLISHED: Final = "skill-not-published"
_PAGE: Final = 500
"""Items of one search: so many that the skills of one user are one answer, which nobody can change midway."""


class StoreSource(FetchedSource):
    """The skills of one namespace of a store. Nobody vouches for them unless told: users wrote them."""

    def __init__(
        self,
        store: BaseStore,
        namespace: Namespace,
        label: str = "user",
        *,
        trusted: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name a namespace; raises SkillError for one that no store takes."""
        self._store = store
        self._namespace = checked_namespace(namespace)
        place = f"store:{'/'.join(self._namespace)}"
        super().__init__(label, place, trusted=trusted, clock=clock)

    def _list(self) -> Listing:
        listing = Listing(self.place)
        for item in _items(self._store, self._namespace, MAX_FILES + 1):
            relative = self._relative(item)
            if relative is None:
                listing.refuse("/".join((*item.namespace, item.key)), "its name leads out of its folder")
                continue
            try:
                content = content_of(item.value)
            except ValueError as error:
                listing.refuse(relative, str(error))
                continue
            updated = int(item.updated_at.timestamp() * 1e6)
            # SQLite's clock has seconds: of two changes in one only the checksum tells.
            stamp = (updated, len(content), crc32(content))
            listing.add(relative, ListedFile((*item.namespace, item.key), len(content), stamp))
        return listing

    def _fetch(self, file: ListedFile, limit: int) -> bytes:
        *namespace, key = file.key
        with raising_os_errors():
            item = self._store.get(tuple(namespace), key)
        if item is None:
            raise missing(key)
        try:
            return content_of(item.value)[:limit]
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error), key) from error

    def _relative(self, item: Item) -> str | None:
        folders = item.namespace[len(self._namespace) :]
        if not folders:
            return item.key.removeprefix("/")
        if any(not folder or "/" in folder or folder == "." for folder in folders):
            return None
        return None if item.key.startswith("/") else "/".join((*folders, item.key))


def source_of_user(store: BaseStore, user_id: str, label: str) -> StoreSource:
    """Return a caller's own skills in a store. Raises SkillError for a user id that cannot be one."""
    return StoreSource(store, user_namespace(user_id), label=label)


def publish(store: BaseStore, namespace: Namespace, folder: Path) -> tuple[str, ...]:
    """Put a skill folder into a store, in place of what was there of it; return the keys.

    SKILL.md is written last of the new files, so that nobody finds a skill before its scripts. Skills in
    folders of the skill are left out: they are skills of their own.

    Raises:
        SkillError: the folder is no skill, no store takes its namespace, or a file is too large.
    """
    source = DirectorySource(folder, "publish")
    root = source.folder
    skill = next((each.path for each in source.scan().skills if Path(each.path).parent == root), None)
    if skill is None:
        raise SkillError(f"{root} is not published: it has no SKILL.md.", code=_NOT_PUBLISHED)
    target = checked_namespace((*namespace, root.name))
    values: dict[str, dict[str, str]] = {}
    for file in source.fetch(skill):
        if len(file.content) > MAX_FILE_BYTES:
            text = f"{root} is not published: {file.path} is over {MAX_FILE_BYTES:,} bytes."
            raise SkillError(text, code=_NOT_PUBLISHED)
        values[file.path] = value_of(file.content)
    stale = [item.key for item in _items(store, target, MAX_FILES) if item.namespace == target]
    # The skill itself comes first from its source, and goes last into the store.
    for key in reversed(values):
        store.put(target, key, values[key], index=False)
    for key in stale:
        if key not in values:
            store.delete(target, key)
    return tuple(reversed(values))


def withdraw(store: BaseStore, namespace: Namespace, name: str) -> bool:
    """Take a skill out of a store; return whether it was there. SKILL.md goes first: no half is found.

    Raises SkillError where no store takes its namespace.
    """
    target = checked_namespace((*namespace, name))
    items = [*_items(store, target, MAX_FILES)]
    for item in sorted(items, key=lambda item: item.key != "SKILL.md"):
        store.delete(item.namespace, item.key)
    return bool(items)


def value_of(content: bytes) -> dict[str, str]:
    """Return a file as the value of an item: text where it is text."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # which PostgreSQL's JSON cannot hold
        return {"content": base64.b64encode(content).decode(), "encoding": "base64"}
    return {"content": text, "encoding": "utf-8"}


def content_of(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of an item; raises ValueError where it holds no file."""
    content = value.get("content")
    if isinstance(content, list) and all(isinstance(line, str) for line in content):
        content = "\n".join(content)
    if not isinstance(content, str):
        raise ValueError("its content is no text and no list of lines")  # noqa: TRY004 - wrong as a value
    encoding = value.get("encoding", "utf-8")
    if encoding == "utf-8":
        return content.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise ValueError("its encoding is neither utf-8 nor base64")
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("its content is no base64") from error


def _items(store: BaseStore, namespace: Namespace, most: int) -> Iterator[Item]:
    """Yield the items of a namespace, and no others: there were stores whose `a` matched `ab` too."""
    for offset in range(0, most, _PAGE):
        limit = min(_PAGE, most - offset)
        with raising_os_errors():
            page = store.search(namespace, limit=limit, offset=offset)
        yield from (item for item in page if tuple(item.namespace[: len(namespace)]) == namespace)
        if len(page) < limit:
            return
