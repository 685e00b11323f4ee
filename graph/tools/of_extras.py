"""What an extra brings with its tools (the hook `tools`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.tools import BaseTool

from skills_agent.graph.tools.change import Changes
from skills_agent.state.context import Context


class ExtraTools(NamedTuple):
    """Tools, and what is said of calls before a person is asked about them."""

    tools: Sequence[BaseTool]
    changes: Callable[[Changes], Changes] = lambda changes: changes
    """Returns what says what calls would change, with what is to be said of these tools and of others."""
    measures: Mapping[str, Callable[[Mapping[str, Any], Context], str]] = {}
    """By tool, what measures what a call with these arguments would bring."""
