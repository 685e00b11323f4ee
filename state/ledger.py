"""Questions about the ledger, as pure functions of it."""

from collections.abc import Mapping

from skills_agent.state.records import LoadedSkill


def active_skills(ledger: Mapping[str, LoadedSkill] | None) -> dict[str, LoadedSkill]:
    """Return the skills that are loaded and were not unloaded, by name; none before the first load."""
    return {name: skill for name, skill in (ledger or {}).items() if not skill["unloaded"]}
