"""Parts for somebody's agent: skills, gate, once, workspace and trace, each alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skills_agent.graph.hooks import Extra

if TYPE_CHECKING:
    from skills_agent.parts.gate import Gate as Gate
    from skills_agent.parts.graph import PartInput as PartInput
    from skills_agent.parts.graph import add_skills as add_skills
    from skills_agent.parts.graph import tool_node as tool_node
    from skills_agent.parts.once import Once as Once
    from skills_agent.parts.shared import PartState as PartState
    from skills_agent.parts.skills import Skills as Skills
    from skills_agent.parts.trace import Trace as Trace
    from skills_agent.parts.trace import TraceHandler as TraceHandler
    from skills_agent.parts.workspace import Workspace as Workspace

EXTRA: Final = Extra(name="parts")
_HOMES: Final = {
    **{name: name.lower() for name in ("Gate", "Once", "Skills", "Trace", "Workspace")},
    **dict.fromkeys(("PartInput", "add_skills", "tool_node"), "graph"),
    "PartState": "shared",
    "TraceHandler": "trace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
