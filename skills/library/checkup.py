"""A check-up of the skills of this machine: where they come from, what is not used as written, and why."""

import os
from collections import Counter
from typing import NamedTuple

from msgspec.structs import replace

from skills_agent.skills.format.rules import REPAIRS
from skills_agent.skills.library.admission import requirement_findings
from skills_agent.skills.library.catalog import CatalogEntry, EntryStatus
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


class Checkup(NamedTuple):
    """What a person would want to know before asking why a skill is not used."""

    sources: tuple[SourceState, ...]
    """From low to high precedence."""
    shadowed: tuple[CatalogEntry, ...]
    skipped: tuple[CatalogEntry, ...]
    repaired: tuple[CatalogEntry, ...]
    """Used otherwise than written; the diagnostics are those of the repairs alone."""
    requirements: tuple[Diagnostic, ...]
    """What skills require and is not here, or leads back to them."""
    diagnostics: tuple[Diagnostic, ...]
    """What sources passed over, and is no skill."""


def check_up(registry: Registry) -> Checkup:
    """Return what discovery says of the skills of every source."""
    catalog = registry.refresh()
    entries = catalog.entries
    counts = Counter((registry.source_of(entry.source, entry.path), entry.status) for entry in entries)
    paths = {entry.path for entry in entries}
    return Checkup(
        sources=tuple(_state(source, counts) for source in registry.sources),
        shadowed=tuple(entry for entry in entries if entry.status == "shadowed"),
        skipped=tuple(entry for entry in entries if entry.status == "skipped"),
        repaired=tuple(
            replace(entry, diagnostics=repairs)
            for entry in entries
            if entry.status != "skipped" and (repairs := _repairs(entry))
        ),
        requirements=tuple(requirement_findings(catalog)),
        diagnostics=tuple(diagnostic for diagnostic in catalog.diagnostics if diagnostic.path not in paths),
    )


def _repairs(entry: CatalogEntry) -> tuple[Diagnostic, ...]:
    return tuple(diagnostic for diagnostic in entry.diagnostics if diagnostic.code in REPAIRS)


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
