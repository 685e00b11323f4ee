"""Skills of stores and remote places, as fsspec and backends of deepagents reach them."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="sources",
    own_skills="skills_agent.sources.store:source_of_user",
)
