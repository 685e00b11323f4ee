"""The nodes of the graph, one file each, and the few files that two of them share."""

from typing import Any, Protocol

from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime

from skills_agent.skills.library.registry import Registry
from skills_agent.state.context import Context


class RegistryOf(Protocol):
    """Returns the registry of the skills that a request may see: the shared ones and the caller's own."""

    def __call__(self, runtime: Runtime[Context] | ToolRuntime[Any, Any], *, look: bool = False) -> Registry:
        """Return the registry. With `look`, the caller's own skills are looked for in the store again."""
        ...
