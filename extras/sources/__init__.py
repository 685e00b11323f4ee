"""Skills and a runner elsewhere: in a store, at a remote place, in a backend, on another machine."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="sources",
    own_skills="skills_agent.sources.store:source_of_user",
)
