"""Which skills the agent of an eval case has, by where the cases are."""

from collections.abc import Sequence
from pathlib import Path

from skills_agent.graph.settings import Settings
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource, standard_sources
from skills_agent.skills.sources.walk import SKILL_FILE


def skill_folder(place: Path) -> Path | None:
    """Return the skill that a file or folder belongs to; None for one that is in no skill."""
    return next((each for each in (place, *place.parents) if (each / SKILL_FILE).is_file()), None)


def catalog_folders(places: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders of skills that the cases of some places are about, strongest last.

    Of a skill it is the folder that it lies in: its neighbours are what it is chosen from.
    """
    found: list[Path] = []
    for place in places:
        skill = skill_folder(place)
        if skill is not None:
            found.append(skill.parent)
        elif place.is_dir() and any(place.glob(f"*/{SKILL_FILE}")):
            found.append(place)
    return tuple(dict.fromkeys(found))


def sources_of(settings: Settings, places: Sequence[Path], label: str) -> Sequence[Source]:
    """Return the sources of an agent, each labelled anew, so that what its scripts keep is nobody else's.

    Without folders of skills among the places they are the workspace's, as for any question there.
    """
    if folders := catalog_folders(places):
        return [
            DirectorySource(folder, f"{label}-{number}", trusted=False)
            for number, folder in enumerate(folders)
        ]
    sources = standard_sources(
        settings.workspace,
        settings.home,
        settings.skills_dirs,
        bundled=settings.bundled_skills,
        offered=settings.offered_dirs,
    )
    for source in sources:
        source.label = f"{label}-{source.label}"
    return sources
