"""The skills of a registry as MCP lists them: each as the snapshot that it is now."""

import hashlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from skills_agent.mcp.entries import MAX_BYTES, MAX_FILES, McpEntry, McpFile, read_entry, uri_of
from skills_agent.mcp.json_fields import json_fields
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.errors import SkillError
from skills_agent.skills.format.fields import FIELDS
from skills_agent.skills.format.rules import NAME_RULE, is_spec_name
from skills_agent.skills.library.contents import ContentLimits, list_contents
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillMetadata

logger = logging.getLogger(__name__)


class PublishedSkill(NamedTuple):
    """A skill that is published."""

    entry: McpEntry
    folder: Path
    """Its snapshot: the bytes that the entry has digests of."""

    def read(self, path: str) -> bytes:
        """Return a file of the skill. Raises OSError."""
        return read_beneath(self.folder, path, MAX_BYTES)


class Publisher:
    """Publishes the skills of a registry, without reading twice what has not changed."""

    def __init__(self, registry: Registry, names: frozenset[str] = frozenset()) -> None:
        """Publish skills of these names; of none: all that a model may load."""
        self._registry = registry
        self._names = names
        self._known: dict[str, PublishedSkill] = {}
        """By the digest of the skill."""
        self._said: set[tuple[str, str]] = set()
        """Which skills were said not to be published, with why: lists are asked for again and again."""

    def skills(self) -> Mapping[str, PublishedSkill]:
        """Return what is published now, by URI. What cannot be is left out, and logged."""
        catalog = self._registry.refresh()
        names = self._names
        chosen = [each for each in catalog.skills if (each.name in names if names else each.model_invocable)]
        published = {each.entry.uri: each for skill in chosen for each in self._published(skill)}
        self._known = {digest: each for digest, each in self._known.items() if each in published.values()}
        return published

    def _published(self, skill: SkillMetadata) -> Iterator[PublishedSkill]:
        try:
            snapshot = self._registry.snapshot(skill.ref)
            if snapshot.digest not in self._known:
                self._known[snapshot.digest] = PublishedSkill(
                    _entry(skill.name, snapshot.folder), snapshot.folder
                )
            yield self._known[snapshot.digest]
        except (SkillError, OSError) as error:
            if (skill.name, str(error)) not in self._said:
                self._said.add((skill.name, str(error)))
                logger.warning("skill %s is not published: %s", skill.name, error)


def _entry(name: str, folder: Path) -> McpEntry:
    """Describe a skill's folder. Raises SkillError."""
    files = dict(_files(name, folder))
    fields = json_fields(read_beneath(folder, "SKILL.md", MAX_BYTES))
    if fault := _fault(name, fields):
        raise SkillError(f"{fault}, by the specification: clients refuse a whole list for one that is not")
    return read_entry(McpEntry(uri_of(name), fields, files).as_json())  # as a client does


def _fault(name: str, fields: Mapping[str, Any]) -> str:
    """Say what a frontmatter has to be and is not; empty for nothing."""
    if not is_spec_name(name) or fields.get("name") != name:
        return f"its name has to be {NAME_RULE}"
    if "description" not in fields:
        return "it has to have a description"
    for row in FIELDS:
        value = fields.get(row.name)
        if not row.in_spec or row.name not in fields:
            continue
        if row.name == "metadata":
            if not (isinstance(value, dict) and all(isinstance(each, str) for each in value.values())):
                return "its metadata has to be texts by their names"
        elif not isinstance(value, str):
            return f"its {row.name} has to be one text"
        elif row.limit is not None and not (value.strip() and len(value) <= row.limit):
            return f"its {row.name} has to have 1 to {row.limit:,} characters"
    return ""


def _files(name: str, folder: Path) -> Iterator[tuple[str, McpFile]]:
    for member in list_contents(folder, ContentLimits(MAX_BYTES, MAX_FILES)):
        if member.kind != "link" or (folder / member.path).is_file():
            content = read_beneath(folder, member.path, MAX_BYTES)
            digest = hashlib.sha256(content).hexdigest()
            yield member.path, McpFile(uri_of(name, member.path), f"sha256:{digest}", len(content))
