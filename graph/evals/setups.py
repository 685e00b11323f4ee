"""What the cases of a run share, made of the head of the run."""

from collections.abc import Collection

from skills_agent.graph.evals.grading import make_grade
from skills_agent.graph.evals.places import catalog_folders, places_of, sources_of
from skills_agent.graph.evals.recording import recordings_of
from skills_agent.graph.evals.running import Setup
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import Database
from skills_agent.skills.evals.result import RunHead
from skills_agent.skills.policy.risk import Risk


def make_setup(
    settings: Settings, head: RunHead, database: Database, yes: Collection[Risk] = (), *, is_new: bool = True
) -> Setup:
    """Return what all cases of a run share. A run that goes on adds to its recordings: it is not `is_new`."""
    places = places_of(head.places, head.cases)
    kept = recordings_of(settings, places, head.recording, anew=is_new) if head.recording else None
    return Setup(
        settings=settings,
        database=database,
        run=head.id,
        sources=lambda label: sources_of(settings, places, label),
        folders=tuple(map(str, catalog_folders(places))),
        yes=yes,
        grade=make_grade(settings, head.grader, kept) if head.grader else None,
        **({"model_of": kept.model_of} if kept else {}),
    )
