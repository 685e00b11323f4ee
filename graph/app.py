"""The graph that langgraph.json names: the settings of this process, compiled without a checkpointer.

The server brings its own checkpointer and store, and refuses a graph that has one. A program that has its
own calls `build_graph(...)` and compiles it.
"""

import gc

from skills_agent.graph.build import build_graph
from skills_agent.graph.settings import Settings
from skills_agent.graph.start_up import refuse_start_in_workspace

settings = Settings.load()
refuse_start_in_workspace(settings)
graph = build_graph(settings).compile(name="skills-agent")

# What was imported lives as long as the server: each full collection of garbage would walk over it, for an
# eighth of a second.
gc.collect()
gc.freeze()
