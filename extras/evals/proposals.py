"""What the evals of a proposed skill say, with it and without it, before a person is asked about it.

Nobody has agreed to the skill yet. So its cases run as all do (`running.py`): in a workspace and a home that
are thrown away, its programs in the sandbox or not at all, with no way out. They are few, and have little
time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import RunControl
from msgspec import structs
from typing_extensions import override

from skills_agent.evals.cases.comparing import SHARES
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.read import read_all
from skills_agent.evals.cases.result import EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder
from skills_agent.evals.cases.summarise import summarise
from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.cases.trajectory import Budget
from skills_agent.evals.report.figures import delta_text, failures, reason, share
from skills_agent.evals.running import SCRIPTED, Setup
from skills_agent.evals.runs import run_all
from skills_agent.evals.skill_folders import EvaluatedSource, sources_of
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from skills_agent.nodes.wrapped_models import ModelRunnable
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.text import count, one_line

MAX_CASES: Final = 6
"""A person waits for the question."""
TOKENS: Final = 200_000
"""Of all of them together."""
_JOBS: Final = 2
_FAILED: Final = 4
"""Cases of which it is said why they fail."""
_WIDTH: Final = 200


class _Limited(RunControl):
    """Ends all runs when their time is over, or nobody waits any more."""

    def __init__(self, end: float, is_over: Callable[[], bool]) -> None:
        super().__init__()
        self._end, self._is_over = end, is_over

    @property
    @override
    def drain_requested(self) -> bool:
        if monotonic() >= self._end or self._is_over():
            self.request_drain()
        return super().drain_requested


def measure_draft(
    settings: Settings,
    seconds: float,
    folder: Path,
    base: Path | None,
    name: str,
    chat: ModelRunnable,
    is_over: Callable[[], bool],
) -> str:
    """Return in a few lines what the evals in a proposed skill's `evals/` say; empty where there are none.

    All of them have so many seconds. The proposed skill is alone in the folder above its own; `base` is that
    of the version that it would replace. `name` is that of the model. `is_over` says that nobody waits any
    more.
    """
    model = SCRIPTED if isinstance(chat, ScriptedChatModel) else name
    try:
        cases = [case for read in read_all([folder]) for case in read.cases if case.skill == folder.name]
    except EvalError as error:
        return str(error)
    mine = [case for case in cases if case.has_checks and (case.replies or model != SCRIPTED)]
    if not mine:
        return ""
    few = tuple(structs.replace(case, repeat=1) for case in mine[:MAX_CASES])
    head = RunHead(id="", at=datetime.now(UTC).isoformat(timespec="seconds"), models=(model,), cases=few)
    stop = _Limited(monotonic() + seconds, is_over)
    # Its own threads, and no proposals of its own: they are gone with the question.
    setup = Setup(
        replace(settings, extras={**settings.extras, "packages_propose": False}),
        InMemorySaver(),
        "draft",
        partial(_sources, settings, folder.parent),
        folders=[folder.parent],
        model_of=lambda *_: None if model == SCRIPTED else chat,
    )
    now = _run(structs.replace(head, id="draft", arms=("with", "without")), setup, stop)
    before = None
    if base is not None:
        there = replace(setup, run="base", sources=partial(_sources, settings, None), folders=())
        before = _run(structs.replace(head, id="base"), there, stop)
    said = [*_lines(summarise(*now, before))]
    if len(mine) > MAX_CASES:
        said.append(f"The first {MAX_CASES} of its {len(mine)} cases were run.")
    if stop.drain_requested:
        said.append(f"Not all of them were run: they have {seconds:g} seconds.")
    return "\n".join(said)


def _run(head: RunHead, setup: Setup, stop: RunControl) -> tuple[RunHead, Sequence[EvalResult]]:
    with TemporaryDirectory(prefix="skills-agent-proposal-") as place:
        folder = RunFolder.create(Path(place).resolve(), head)
        partly = run_all(folder, setup, jobs=_JOBS, stop=stop, budget=Budget(TOKENS))
        return structs.replace(head, partial=partly), folder.results()


def _sources(settings: Settings, skills: Path | None) -> Sequence[Source]:
    """Return the sources that are there, with a folder of skills as the strongest."""
    usual = sources_of(settings, ())
    own = [DirectorySource(skills, usual[-1].label, trusted=False)] if skills else []
    return [*usual, *map(EvaluatedSource, own)]


def _lines(summary: Summary) -> Iterator[str]:
    for arm in summary.arms:
        kind = "with it" if arm.arm == "with" else "without it"
        passed = arm.outcomes.get("passed", 0)
        yield f"{kind}: {passed} of {count(arm.runs, 'run')} passed, {share(arm.passed)}"
    for delta in summary.deltas:
        if delta.metric in SHARES:
            is_edit = delta.name.startswith("now")
            pair = "with it against the version that is there" if is_edit else "with it against without it"
            yield f"{delta.metric}, {pair}: {delta_text(delta)}"
    for result in failures(summary)[:_FAILED]:
        yield one_line(f"{result.outcome} with it: {result.case}: {reason(result)}", _WIDTH)
    for note in summary.notes:
        yield one_line(note, _WIDTH)
