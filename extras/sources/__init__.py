"""Skills from elsewhere: from a store, a remote place, a backend."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="sources",
    own_skills="skills_agent.sources.store:source_of_user",
)
