"""What langgraph.json names: the agent with this process's settings, compiled without a checkpointer.

The server brings its own checkpointer and store, and refuses a graph that has one. Programs that
want their own call `build_graph(...)` and compile it themselves.
"""

from skills_agent.graph.build import build_graph

graph = build_graph().compile(name="skills-agent")
