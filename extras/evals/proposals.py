"""What the evals of a proposed skill say, with it and without it, before a person is asked about it.

Nobody has agreed to the skill yet. So its cases run as all do (`running.py`): in a workspace and a home that
are thrown away, its programs in the sandbox or not at all, with no way out. They are few, and have little
time.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from langgraph.checkpoint.memory import InMemorySaver
from msgspec import structs

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.read import read_all
from skills_agent.evals.cases.result import Arm, EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder
from skills_agent.evals.cases.summarise import summarise
from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.places import EvaluatedSource, sources_of
from skills_agent.evals.report.figures import delta_text, failures, reason, share
from skills_agent.evals.running import SCRIPTED, Setup
from skills_agent.evals.runs import Stop, run_all
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.opened import Database
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
_POLL: Final = 0.2
_WIDTH: Final = 200


class _Draft(NamedTuple):
    """What is measured."""

    folder: Path
    """Of the proposed skill, alone in the folder above it."""
    base: Path | None
    """Of the version that it would replace; None for a new skill."""


@dataclass(frozen=True)
class ProposalEvals:
    """Runs the evals that a proposed skill brings, in its folder `evals/`."""

    settings: Settings
    seconds: float
    """For all of them."""

    def measure(
        self, folder: Path, base: Path | None, name: str, chat: ModelRunnable, is_over: Callable[[], bool]
    ) -> str:
        """Return in a few lines what they say; empty where there are none.

        The proposed skill is alone in the folder above its own; `base` is that of the version that it would
        replace. `name` is that of the model. `is_over` says that nobody waits any more.
        """
        draft = _Draft(folder, base)
        try:
            cases = [each for one in read_all([draft.folder]) for each in one.cases]
        except EvalError as error:
            return str(error)
        name = SCRIPTED if isinstance(chat, ScriptedChatModel) else name
        mine = [each for each in cases if each.skill == draft.folder.name and _can_run(each, name)]
        if not mine:
            return ""
        few = tuple(structs.replace(each, repeat=1) for each in mine[:MAX_CASES])
        measuring = _Measuring(self.settings, draft, name, chat, few)
        with _stopping_after(self.seconds, is_over) as stop:
            summary = measuring.summary(stop)
        said = [*_lines(summary)]
        if len(mine) > MAX_CASES:
            said.append(f"The first {MAX_CASES} of its {len(mine)} cases were run.")
        if stop.drain_requested:
            said.append(f"Not all of them were run: they have {self.seconds:g} seconds.")
        return "\n".join(said)


@dataclass(frozen=True)
class _Measuring:
    settings: Settings
    draft: _Draft
    model: str
    chat: ModelRunnable
    cases: tuple[EvalCase, ...]

    def summary(self, stop: Stop) -> Summary:
        """Run the cases with the draft and without it, then with what it would replace."""
        now = self._run("draft", ("with", "without"), self._with_draft, stop)
        before = self._run("base", ("with",), self._usual, stop) if self.draft.base is not None else None
        return summarise(*now, before)

    def _run(
        self, name: str, arms: tuple[Arm, ...], sources: Callable[[], Sequence[Source]], stop: Stop
    ) -> tuple[RunHead, Sequence[EvalResult]]:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        head = RunHead(id=name, at=at, models=(self.model,), arms=arms, cases=self.cases)
        chat = None if self.model == SCRIPTED else self.chat
        # Its own threads, and no proposals of its own: they are gone with the question.
        setup = Setup(
            replace(self.settings, enable_propose_skill=False),
            Database(InMemorySaver(), None),
            name,
            sources,
            folders=[str(self.draft.folder.parent)],
            model_of=lambda *_: chat,
        )
        with TemporaryDirectory(prefix="skills-agent-proposal-") as place:
            folder = RunFolder.create(Path(place).resolve(), head)
            partial = run_all(folder, setup, jobs=_JOBS, stop=stop, tokens=TOKENS)
            return structs.replace(head, partial=partial), folder.results()

    def _usual(self) -> Sequence[Source]:
        return sources_of(self.settings, ())

    def _with_draft(self) -> Sequence[Source]:
        usual = self._usual()
        own = DirectorySource(self.draft.folder.parent, usual[-1].label, trusted=False)
        return [*usual, EvaluatedSource(own)]


def _can_run(case: EvalCase, model: str) -> bool:
    return case.has_checks and (bool(case.replies) or model != SCRIPTED)


@contextmanager
def _stopping_after(seconds: float, is_over: Callable[[], bool]) -> Iterator[Stop]:
    """Give what ends all runs when their time is over, or nobody waits any more."""
    stop, done = Stop(), threading.Event()

    def watch() -> None:
        left = seconds
        while not done.wait(_POLL):
            left -= _POLL
            if left <= 0 or is_over():
                stop.request_drain()
                return

    threading.Thread(target=watch, name="proposal-evals", daemon=True).start()
    try:
        yield stop
    finally:
        done.set()


def _lines(summary: Summary) -> Iterator[str]:
    for arm in summary.arms:
        kind = "with it" if arm.arm == "with" else "without it"
        passed = arm.outcomes.get("passed", 0)
        tokens = f", {arm.tokens.median:,.0f} tokens each" if arm.tokens.median else ""
        yield f"{kind}: {passed} of {count(arm.runs, 'run')} passed, {share(arm.passed)}{tokens}"
    for delta in summary.deltas:
        if delta.metric in {"passed", "chosen"}:
            is_edit = delta.name.startswith("now")
            pair = "with it against the version that is there" if is_edit else "with it against without it"
            yield f"{delta.metric}, {pair}: {delta_text(delta)}"
    for result in failures(summary)[:_FAILED]:
        yield one_line(f"{result.outcome} with it: {result.case}: {reason(result)}", _WIDTH)
    for note in summary.notes:
        yield one_line(note, _WIDTH)
