"""A check-up of the skills of this machine: where they come from, what is not used as written, and why."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from skills_agent.skills.format.rules import REPAIRS
from skills_agent.skills.library.catalog import Catalog, CatalogEntry, EntryStatus
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import Diagnostic
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


class Repaired(NamedTuple):
    """A skill in effect that is used otherwise than it is written."""

    entry: CatalogEntry
    repairs: tuple[Diagnostic, ...]


class Checkup(NamedTuple):
    """What a person would want to know before asking why a skill is not used."""

    sources: tuple[SourceState, ...]
    """From low to high precedence."""
    shadowed: tuple[CatalogEntry, ...]
    skipped: tuple[CatalogEntry, ...]
    repaired: tuple[Repaired, ...]
    reported: tuple[Diagnostic, ...]
    """What sources passed over, and is no skill."""


def check_up(registry: Registry) -> Checkup:
    """Discover the skills of every source, and say what was found."""
    catalog = registry.refresh()
    entries = catalog.entries
    return Checkup(
        sources=tuple(_state(source, registry.sources, entries) for source in registry.sources),
        shadowed=_of_status("shadowed", entries),
        skipped=_of_status("skipped", entries),
        repaired=tuple(
            Repaired(entry, repairs)
            for entry in entries
            if entry.status != "skipped"
            and (repairs := tuple(found for found in entry.diagnostics if found.code in REPAIRS))
        ),
        reported=_reported(catalog),
    )


def _state(source: Source, sources: Sequence[Source], entries: Sequence[CatalogEntry]) -> SourceState:
    folder = source.folder if isinstance(source, DirectorySource) else None
    own = [entry for entry in entries if entry.source == source.label and _owner(entry, sources) is source]
    return SourceState(
        label=source.label,
        folder=None if folder is None else os.fspath(folder),
        exists=folder is None or folder.is_dir(),
        trusted=source.trusted,
        shown=len(_of_status("shown", own)),
        shadowed=len(_of_status("shadowed", own)),
        skipped=len(_of_status("skipped", own)),
    )


def _owner(entry: CatalogEntry, sources: Sequence[Source]) -> Source | None:
    """Return the source that has an entry: of several with one label, that whose folder holds it."""
    alike = [source for source in sources if source.label == entry.source]
    for source in alike:
        if isinstance(source, DirectorySource) and Path(entry.path).is_relative_to(source.folder):
            return source
    return next((source for source in alike if not isinstance(source, DirectorySource)), None)


def _of_status(status: EntryStatus, entries: Sequence[CatalogEntry]) -> tuple[CatalogEntry, ...]:
    return tuple(entry for entry in entries if entry.status == status)


def _reported(catalog: Catalog) -> tuple[Diagnostic, ...]:
    of_entries = {entry.path for entry in catalog.entries}
    return tuple(found for found in catalog.diagnostics if found.path not in of_entries)
