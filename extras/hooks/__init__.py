"""Hooks: commands and prompts of skills and of the operator, which run when something happens in a turn."""

from typing import Final

from skills_agent.graph.hooks import Extra

EXTRA: Final = Extra(
    name="hooks",
    settings="skills_agent.hooks.settings:HookSettings",
    events="skills_agent.hooks.events:EVENTS",
    skill_hooks="skills_agent.hooks.task:hooks_of",
)
