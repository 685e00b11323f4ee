"""Which skills the agent of an eval case has, by where the cases are."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.eval_place import EVALS_FOLDER
from skills_agent.evals.laying import file_of
from skills_agent.graph.settings import Settings, folder_sources
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource
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
    """Another source, with skills as they are installed: without their `evals/`.

    There the expected answers are; and what is recorded there must not change the prompt.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.label = source.label
        self.trusted = source.trusted

    def scan(self) -> Scan:
        return self._source.scan()

    def read(self, path: str, limit: int) -> bytes:
        return self._source.read(path, limit)

    def fetch(self, path: str) -> Iterator[SkillFile]:
        return (file for file in self._source.fetch(path) if not _is_of_evals(file.path))

    def root(self, path: str) -> Path | None:
        root = self._source.root(path)
        if root is None or self.plugin(path) or not any(map(_is_of_evals, _names_in(root))):
            return root
        return None  # What is in no folder is fetched, file by file.

    def plugin(self, path: str) -> Plugin | None:
        return self._source.plugin(path)

    def claims(self, path: str) -> bool:
        return self._source.claims(path)


def _is_of_evals(path: str) -> bool:
    """Return whether a file or folder at the root of a skill is of its evals, not of the skill."""
    first, _, rest = path.partition("/")
    return first == EVALS_FOLDER or (not rest and first.partition(".")[0] == EVALS_FOLDER)


def _names_in(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:  # it is said where the skill is loaded
        return []


def places_of(places: Sequence[str], cases: Iterable[EvalCase]) -> tuple[Path, ...]:
    """Return what says which skills a run's agent has: where cases were looked for, and their files."""
    files = (str(file_of(case)) for case in cases if case.file)
    return tuple(map(Path, dict.fromkeys([*places, *files])))


def sources_of(settings: Settings, places: Sequence[Path]) -> Sequence[Source]:
    """Return the sources of an agent, named as for any question: a model reads their names.

    Skills and folders of skills among the places are the strongest; nobody vouches for them by their path.
    Where another place is among them, as the workspace is, its skills come first, as for any question there,
    but for the user's own: a run is to mean the same on another machine.
    """
    folders = catalog_folders(places)
    every = folder_sources(settings)
    is_of_skills = bool(folders) and all(map(_is_of_skills, places))
    own = [] if is_of_skills else [source for source in every if source.label != "user"]
    labels = {os.path.realpath(source.folder): source.label for source in every}
    known = {os.path.realpath(source.folder) for source in own}
    named = [
        DirectorySource(folder, labels.get(os.path.realpath(folder), "configured"), trusted=False)
        for folder in folders
        if os.path.realpath(folder) not in known
    ]
    return [EvaluatedSource(source) for source in (*own, *named)]


def _is_of_skills(place: Path) -> bool:
    return bool(catalog_folders([place]))
