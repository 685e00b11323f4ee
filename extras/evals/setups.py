"""What the cases of a run share, made of the head of the run: its skills, its models, its grader."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.result import RunHead
from skills_agent.evals.grading import Grade, make_grade
from skills_agent.evals.places import catalog_folders, places_of, sources_of
from skills_agent.evals.recording import Recordings
from skills_agent.evals.running import SCRIPTED, Setup
from skills_agent.graph.models.provider import resolve_model
from skills_agent.graph.places import process_environment
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.opened import Database
from skills_agent.nodes.wrapped_models import ModelRunnable
from skills_agent.skills.policy.risk import Risk


class RunModels(NamedTuple):
    """What a run asks."""

    model_of: Callable[[EvalCase, str, int], ModelRunnable | None]
    grade: Grade | None


NO_MODELS = RunModels(lambda *_: None, None)
"""Those of a run that asks nobody."""


def models_of(settings: Settings, head: RunHead, *, anew: bool) -> RunModels:
    """Return the models of a run; of recordings, `anew` forgets those of before.

    Raises ModelError for one that cannot be asked, before any case is run: a missing key is one sentence,
    not two hundred.
    """
    if head.recording != "replay":
        for name in head.models:
            if name != SCRIPTED:
                resolve_model(name, environment=process_environment(), parameters=settings.model_parameters)
    kept = None
    if head.recording:
        folders = catalog_folders(places_of(head.places, head.cases))
        kept = Recordings(settings, folders, is_played=head.recording == "replay", anew=anew)
    grade = make_grade(settings, head.grader, kept) if head.grader else None
    return RunModels(kept.model_of if kept else lambda *_: None, grade)


def make_setup(
    settings: Settings,
    head: RunHead,
    database: Database,
    yes: Collection[Risk] = (),
    models: RunModels | None = None,
) -> Setup:
    """Return what all cases of a run share; `models` are those of a new run if left out.

    Raises ModelError as `models_of` does.
    """
    places = places_of(head.places, head.cases)
    asked = models or models_of(settings, head, anew=True)
    return Setup(
        settings=settings,
        database=database,
        run=head.id,
        sources=lambda: sources_of(settings, places),
        folders=tuple(map(str, catalog_folders(places))),
        yes=yes,
        grade=asked.grade,
        model_of=asked.model_of,
    )
