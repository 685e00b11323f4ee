"""What a skill needs of this machine, and how it comes there."""

from typing import Final

from skills_agent.graph.hooks import Command, Extra

EXTRA: Final = Extra(
    name="needs",
    needs="skills_agent.needs.hook",
    commands={
        "skills needs": Command(
            "skills_agent.needs.commands.needs:needs",
            "Show what a skill needs of this machine, and what is missing.",
        ),
    },
)
