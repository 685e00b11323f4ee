"""What a skill needs of this machine, and how it comes there."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="needs",
    needs="skills_agent.needs.hook",
)
