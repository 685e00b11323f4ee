"""What the cases of a run share, made of the head of the run."""

from collections.abc import Collection

from skills_agent.evals.cases.result import RunHead
from skills_agent.evals.models import RunModels, models_of
from skills_agent.evals.places import catalog_folders, places_of, sources_of
from skills_agent.evals.running import Setup
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.opened import Database
from skills_agent.skills.policy.risk import Risk


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
