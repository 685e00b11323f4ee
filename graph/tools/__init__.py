"""The tools that the model may call, each with its risk."""

from skills_agent.graph.tools.declare import spec_of
from skills_agent.graph.tools.toolset import build_tools
from skills_agent.graph.tools.workplace import Workdir

__all__ = ["Workdir", "build_tools", "spec_of"]
