"""The registry over the settings' sources. Imports no LangGraph: `skills list` must answer at once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skills_agent.graph.settings import Settings, index_file
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.search.vectors import Embedder, Vectors
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.standard import standard_sources


def make_registry(
    settings: Settings, sources: Sequence[Source] | None = None, embeddings: Embedder | None = None
) -> Registry:
    """Return the registry over the settings' sources; an empty one where skills are turned off."""
    if not settings.enable_skills:
        sources = ()
    elif sources is None:
        sources = standard_sources(
            settings.workspace, settings.home, settings.skills_dirs, bundled=settings.bundled_skills
        )
    return Registry(
        sources,
        max_skill_bytes=settings.max_skill_bytes,
        block_angle_brackets=settings.block_angle_brackets_in_frontmatter,
        index=index_file(settings),
        vectors=Vectors(embeddings) if embeddings else None,
    )


def registry_of(settings: Settings, more: Sequence[Path]) -> Registry:
    """Return the registry over the settings' sources and more folders, which are the strongest."""
    return make_registry(replace(settings, skills_dirs=(*settings.skills_dirs, *more)))
