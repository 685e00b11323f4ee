"""Skills, gate, once and workspace, each alone, for an agent that somebody has."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skills_agent.graph.hooks import Extra

if TYPE_CHECKING:
    from skills_agent.parts.gate import Gate as Gate
    from skills_agent.parts.once import Once as Once
    from skills_agent.parts.skills import Skills as Skills
    from skills_agent.parts.trace import Trace as Trace
    from skills_agent.parts.trace import TraceHandler as TraceHandler
    from skills_agent.parts.workspace import Workspace as Workspace

EXTRA: Final = Extra(name="parts")
_HOMES: Final = {
    "Gate": "gate",
    "Once": "once",
    "Skills": "skills",
    "Trace": "trace",
    "TraceHandler": "trace",
    "Workspace": "workspace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
