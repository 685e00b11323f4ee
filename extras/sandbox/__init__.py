"""Confined scripts and what they changed: their files, network and memory, and the look at it afterwards."""

from typing import Final

from skills_agent.graph.hooks import Command, Extra

EXTRA: Final = Extra(
    name="sandbox",
    settings="skills_agent.sandbox.settings:SandboxSettings",
    runner="skills_agent.sandbox.choice",
    held="skills_agent.sandbox.later",
    commands={
        "undo": Command(
            "skills_agent.sandbox.commands.undo:undo", "Undo what the last run changed in the workspace."
        ),
    },
)
