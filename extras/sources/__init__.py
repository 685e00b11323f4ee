"""Skills from a store, a remote place, a backend or the process."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="sources",
)
