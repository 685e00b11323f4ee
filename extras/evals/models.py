"""Which models a run asks: by their names, recorded or played, and the one that grades."""

from collections.abc import Callable
from typing import NamedTuple

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.result import RunHead
from skills_agent.evals.grading import make_grade
from skills_agent.evals.places import places_of
from skills_agent.evals.recording import recordings_of
from skills_agent.evals.running import SCRIPTED, Grade
from skills_agent.graph.models.provider import resolve_model
from skills_agent.graph.places import process_environment
from skills_agent.graph.settings import Settings
from skills_agent.nodes.wrapped_models import ModelRunnable


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
    environment = process_environment()
    if head.recording != "replay":
        for name in head.models:
            if name != SCRIPTED:
                resolve_model(name, environment=environment, parameters=settings.model_parameters)
    kept = None
    if head.recording:
        kept = recordings_of(settings, places_of(head.places, head.cases), head.recording, anew=anew)
    grade = make_grade(settings, head.grader, kept) if head.grader else None
    return RunModels(kept.model_of if kept else lambda *_: None, grade)
