"""A check-up of the skills of this machine: where they come from, and what is not used as written."""

import os
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from skills_agent.skills.format.rules import REPAIRS
from skills_agent.skills.library.catalog import CatalogEntry, EntryStatus
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.protocol import Source


class SourceState(NamedTuple):
    """A source, and what became of the skills in it."""

    label: str
    folder: str | None
    """None where it is no folder on this machine."""
    exists: bool
    trusted: bool
    shown: int
    shadowed: int
    skipped: int


def source_states(registry: Registry) -> list[SourceState]:
    """Return how each source stands, from low to high precedence."""
    entries = registry.refresh().entries
    counts = Counter((registry.source_of(entry.source, entry.path), entry.status) for entry in entries)
    return [_state(source, counts) for source in registry.sources]


def repaired(entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """Return the skills that are used otherwise than written; their diagnostics are the repairs alone."""
    mended = (
        replace(entry, diagnostics=tuple(each for each in entry.diagnostics if each.code in REPAIRS))
        for entry in entries
        if entry.status != "skipped"
    )
    return [entry for entry in mended if entry.diagnostics]


def _state(source: Source, counts: Counter[tuple[Source | None, EntryStatus]]) -> SourceState:
    folder = source.folder if isinstance(source, DirectorySource) else None
    return SourceState(
        label=source.label,
        folder=None if folder is None else os.fspath(folder),
        exists=folder is None or folder.is_dir(),
        trusted=source.trusted,
        shown=counts[source, "shown"],
        shadowed=counts[source, "shadowed"],
        skipped=counts[source, "skipped"],
    )
