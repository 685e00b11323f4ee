"""What the cases of a run share, made of the head of the run: its skills, its models, its grader."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from skills_agent.evals.agents import MakeAgent
from skills_agent.evals.cases.result import RunHead
from skills_agent.evals.grading import make_grade
from skills_agent.evals.recording import Recordings, resolved
from skills_agent.evals.running import SCRIPTED, Setup
from skills_agent.evals.skill_folders import catalog_folders, places_of, sources_of
from skills_agent.graph.settings import Settings
from skills_agent.skills.risk import Risk


def make_setup(
    settings: Settings,
    head: RunHead,
    saver: BaseCheckpointSaver[Any],
    yes: Collection[Risk] = (),
    *,
    anew: bool = True,
    agents: Mapping[str, MakeAgent] = MappingProxyType({}),
) -> Setup:
    """Return what all cases of a run share; of recordings, `anew` forgets those of before.

    Raises ModelError for a model that cannot be asked, before any case is run: a missing key is one sentence,
    not two hundred.
    """
    places = places_of(head.places, head.cases)
    folders = catalog_folders(places)
    kept = None
    if head.recording:
        kept = Recordings(settings, folders, is_played=head.recording == "replay", anew=anew)
    for name in head.models if head.recording != "replay" else ():
        if name != SCRIPTED:
            resolved(settings, name)
    return Setup(
        settings=settings,
        saver=saver,
        run=head.id,
        sources=lambda: sources_of(settings, places),
        folders=folders,
        yes=yes,
        grade=make_grade(settings, head.grader, kept) if head.grader else None,
        model_of=kept.model_of if kept else lambda *_: None,
        agents=agents,
    )
