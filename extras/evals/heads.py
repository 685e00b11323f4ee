"""The head of a run: what is run, as it was read when the run began."""

import secrets
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.checks import unfit
from skills_agent.evals.cases.errors import EvalRunError
from skills_agent.evals.cases.excerpts import listed
from skills_agent.evals.cases.read import read_all
from skills_agent.evals.cases.result import Arm, Recording, RunHead
from skills_agent.evals.cases.run_folder import RunFolder, ids
from skills_agent.evals.places import places_of, sources_of
from skills_agent.graph.settings import Settings, make_registry
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import count
from skills_agent.skills.visible import visible_line

CUT_OFF = "it was cut off"
"""Why a run is partial that is under way, or that was killed."""
_MANY = 200
"""Skills, from which on only those that cases are about are read whole for their digests."""


class NoCasesError(EvalRunError):
    """Nothing to run. Its `places` are where cases were looked for."""

    code = "no-eval-cases"
    sentence = "There are no eval cases in {run}. {reason}"


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

    Raises NoCasesError, and EvalFileError.
    """
    where = tuple(Path(each).absolute() for each in places) or (settings.workspace,)
    sets = read_all(where)
    cases = tuple(case for each in sets for case in each.cases)
    skipped = [sentence for each in sets for sentence in each.skipped]
    if not cases:
        raise NoCasesError(", ".join(visible_line(str(each)) for each in where), " ".join(skipped[:3]))
    now = datetime.now(UTC)
    arms: tuple[Arm, ...] = ("with", "without") if both else ("with",)
    registry = _registry(settings, tuple(map(str, where)), cases)
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
        skills=digests(registry, cases),
        cases=cases,
        # A run is whole when that was said, and not before: it may be killed at once.
        partial=CUT_OFF,
        skipped=(
            *_absent(registry, cases),
            *skipped,
            *(sentence for case in cases for sentence in unfit(case)),
        ),
    )


def _registry(settings: Settings, places: Sequence[str], cases: Sequence[EvalCase]) -> Registry:
    return make_registry(settings, sources_of(settings, places_of(places, cases)))


def _absent(registry: Registry, cases: Sequence[EvalCase]) -> Iterator[str]:
    """Say which skills cases need that the agent does not have: they fail, and it is nobody's description."""
    known = {skill.name for skill in registry.refresh().skills}
    needed = {case.id: _needed(case) - known for case in cases}
    if names := sorted(set().union(*needed.values())):
        many = count(sum(map(bool, needed.values())), "case")
        yield f"Not among the skills here: {visible_line(listed(names, 5))}. They are named by {many}."


def _needed(case: EvalCase) -> set[str]:
    expected = case.expect.skills
    wanted = expected.names if expected and expected.mode != "none" else ()
    return {name for name in (case.skill, *case.load, *wanted) if name}


def digests(registry: Registry, cases: Sequence[EvalCase]) -> dict[str, str]:
    """Return the digests of the skills that a run's agent knows, by name; of many, of those of the cases."""
    skills, about = registry.refresh().skills, {case.skill for case in cases}
    found = {}
    for skill in skills:
        if len(skills) > _MANY and skill.name not in about:
            continue
        try:
            found[skill.name] = registry.digest(SkillRef(skill.name, skill.source, skill.path))
        except SkillsAgentError:  # it is said where it is loaded
            found[skill.name] = ""
    return found


def newest_partial(workspace: Path) -> str:
    """Return the id of the newest run that did not come to its end. Raises EvalRunError."""
    for run in ids(workspace):
        if RunFolder.open(workspace, run).head.partial:
            return run
    raise EvalRunError("to go on with", "no run of this workspace was cut off. Begin one: skills-agent eval")


def check_unchanged(head: RunHead) -> None:
    """Refuse to go on with cases that are not those of the files any more. Raises EvalRunError.

    A run that came with a repository so runs nothing that its files of cases do not say.
    """
    now = {case.id: case for each in read_all(map(Path, head.places)) for case in each.cases}
    changed = [case for case in head.cases if now.get(case.id) != case]
    if changed:
        files = dict.fromkeys(case.file.partition("#")[0] for case in changed)
        raise EvalRunError(
            head.id,
            f"{count(len(changed), 'case')} changed since it began, in "
            f"{', '.join(visible_line(file) for file in list(files)[:3])}. Begin a new run",
        )


def changed_skills(head: RunHead, settings: Settings) -> list[str]:
    """Return the names of the skills that are not what they were when the run began."""
    now = digests(_registry(settings, head.places, head.cases), head.cases)
    return sorted(name for name, digest in head.skills.items() if now.get(name) != digest)
