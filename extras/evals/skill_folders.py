"""Which skills the agent of an eval case has, by where the cases are."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.eval_folder import EVALS_FOLDER, file_of
from skills_agent.graph.settings import Settings, folder_sources
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.plugin import Plugin
from skills_agent.skills.sources.protocol import Scan, SkillFile
from skills_agent.skills.sources.walk import SKILL_FILE


def catalog_folders(places: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders of skills that the cases of some places are about, strongest last.

    Of a skill it is the folder that it lies in: its neighbours are what it is chosen from.
    """
    found: list[Path] = []
    for place in places:
        skill = next((each for each in (place, *place.parents) if (each / SKILL_FILE).is_file()), None)
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
        if root is None or self.plugin(path) or not any(_is_of_evals(each.name) for each in root.glob("*")):
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
    every = {os.path.realpath(source.folder): source for source in folder_sources(settings)}
    is_of_skills = bool(folders) and all(catalog_folders([place]) for place in places)
    own = {} if is_of_skills else {real: each for real, each in every.items() if each.label != "user"}
    named = []
    for folder in folders:
        real = os.path.realpath(folder)
        if real not in own:
            label = every[real].label if real in every else "configured"
            named.append(DirectorySource(folder, label, trusted=False))
    return [EvaluatedSource(source) for source in (*own.values(), *named)]
