"""Which skills the agent of an eval case has, by where the cases are."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from skills_agent.graph.settings import Settings
from skills_agent.skills.packages.packing import EVALS
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource, standard_sources
from skills_agent.skills.sources.plugin import Plugin
from skills_agent.skills.sources.protocol import Scan, SkillFile
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


class EvaluatedSource:
    """Another source under a label of its own, with skills as they are installed: without their `evals/`.

    There the expected answers are; and what is recorded there must not change the prompt.
    """

    def __init__(self, source: Source, label: str) -> None:
        self._source = source
        self.label = label
        self.trusted = source.trusted

    def scan(self) -> Scan:
        return self._source.scan()

    def read(self, path: str, limit: int) -> bytes:
        return self._source.read(path, limit)

    def fetch(self, path: str) -> Iterator[SkillFile]:
        return (file for file in self._source.fetch(path) if not file.path.startswith(f"{EVALS}/"))

    def root(self, path: str) -> Path | None:
        root = self._source.root(path)
        # What is in no folder is fetched, file by file.
        return None if root is not None and (root / EVALS).is_dir() and not self.plugin(path) else root

    def plugin(self, path: str) -> Plugin | None:
        return self._source.plugin(path)

    def claims(self, path: str) -> bool:
        return self._source.claims(path)


def sources_of(settings: Settings, places: Sequence[Path], label: str) -> Sequence[Source]:
    """Return the sources of an agent, each labelled anew, so that what its scripts keep is nobody else's.

    Without folders of skills among the places they are the workspace's, as for any question there, but for
    the user's own: a run is to mean the same on another machine. Nobody vouches for skills by their path.
    """
    if folders := catalog_folders(places):
        named: Sequence[DirectorySource] = [
            DirectorySource(folder, str(number), trusted=False) for number, folder in enumerate(folders)
        ]
    else:
        every = standard_sources(
            settings.workspace,
            settings.home,
            settings.skills_dirs,
            bundled=settings.bundled_skills,
            offered=settings.offered_dirs,
        )
        named = [source for source in every if source.label != "user"]
    return [EvaluatedSource(source, f"{label}-{source.label}") for source in named]
