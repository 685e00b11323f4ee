"""A shell for the model, and the reading of its command lines."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="shell",
    tools="skills_agent.shell.tools:shell_tools",
    events="skills_agent.shell.events:EVENTS",
    lines="skills_agent.shell.lines",
)
