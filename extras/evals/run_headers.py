"""The head of a run: what is run, as it was read when the run began."""

import secrets
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.errors import NO_CASES, EvalError
from skills_agent.evals.cases.read import read_all
from skills_agent.evals.cases.result import Arm, Recording, RunHead
from skills_agent.evals.skill_folders import places_of, sources_of
from skills_agent.graph.settings import Settings, make_registry
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible_line

CUT_OFF = "it was cut off"
"""Why a run is partial that is under way, or that was killed."""


def new_head(
    settings: Settings,
    places: Sequence[Path],
    *,
    models: Sequence[str],
    both: bool = False,
    repeat: int = 1,
    grader: str = "",
    recording: Recording = "",
) -> RunHead:
    """Read the cases of some places (none: of the workspace), and return the head of a run of them.

    Raises EvalError for a file that cannot be read, and where there are none (`NO_CASES`).
    """
    where = tuple(Path(place).absolute() for place in places) or (settings.workspace,)
    sets = read_all(where)
    cases = tuple(case for each in sets for case in each.cases)
    skipped = [sentence for each in sets for sentence in each.skipped]
    if not cases:
        shown = ", ".join(visible_line(str(each)) for each in where)
        why = f"There are no eval cases in {shown}. {' '.join(skipped[:3])}".rstrip()
        raise EvalError(why, code=NO_CASES)
    now = datetime.now(UTC)
    arms: tuple[Arm, ...] = ("with", "without") if both else ("with",)
    return RunHead(
        id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        at=now.isoformat(timespec="seconds"),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        program=version("skills-agent"),
        models=tuple(dict.fromkeys(models)),
        grader=grader,
        arms=arms,
        repeat=repeat,
        places=tuple(map(str, where)),
        recording=recording,
        skills=_digests(settings, tuple(map(str, where)), cases),
        cases=cases,
        # A run is whole when that was said, and not before: it may be killed at once.
        partial=CUT_OFF,
        skipped=tuple(skipped),
    )


def _digests(settings: Settings, places: Sequence[str], cases: Sequence[EvalCase]) -> dict[str, str]:
    """Return the digests of the skills that cases are about, by name; empty for one that cannot be read."""
    registry = make_registry(settings, sources_of(settings, places_of(places, cases)))
    about, found = {case.skill for case in cases}, {}
    for skill in registry.refresh().skills:
        if skill.name in about:
            try:
                found[skill.name] = registry.digest(SkillRef(skill.name, skill.source, skill.path))
            except SkillsAgentError:  # it is said where it is loaded
                found[skill.name] = ""
    return found


def check_unchanged(head: RunHead) -> None:
    """Refuse to go on with cases that are not those of the files any more. Raises EvalError.

    A run that came with a repository so runs nothing that its files of cases do not say.
    """
    now = {case.id: case for each in read_all(map(Path, head.places)) for case in each.cases}
    changed = [case for case in head.cases if now.get(case.id) != case]
    if changed:
        where = visible_line(changed[0].file)
        raise EvalError(
            f"{count(len(changed), 'case')} changed since {head.id} began, in {where}. Begin a new run"
        )
