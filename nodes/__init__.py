"""The nodes of the graph, one file each, and the few files that two of them share."""

from typing import Any, Protocol

from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime

from skills_agent.skills.library.registry import Registry
from skills_agent.state.context import Context


class RegistryOf(Protocol):
    """Gives the registry of the skills that a request may see: those that all share, and the caller's own."""

    def __call__(self, runtime: Runtime[Context] | ToolRuntime[Any, Any], *, look: bool = False) -> Registry:
        """Return the registry; with `look`, the store is asked again for the caller's own skills."""
        ...
