"""Run many eval cases: side by side, within a budget, and so that a killed run can go on."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from langgraph.runtime import RunControl

from skills_agent.graph.evals.running import Setup, run_case
from skills_agent.skills.evals.case import EvalCase
from skills_agent.skills.evals.result import Arm, EvalResult, RunHead
from skills_agent.skills.evals.run_folder import RunFolder
from skills_agent.skills.evals.trajectory import Spent
from skills_agent.skills.text import count

_POLL: float = 0.2
"""Seconds between two looks whether a signal came."""


class Task(NamedTuple):
    """One run of one case."""

    case: EvalCase
    model: str
    arm: Arm
    repeat: int

    @property
    def key(self) -> tuple[str, str, Arm, int]:
        """Return the key of its result."""
        return self.case.id, self.model, self.arm, self.repeat


class Budget(NamedTuple):
    """What all cases together may take; None: no limit."""

    tokens: int | None = None
    usd: float | None = None

    def spent_by(self, spent: Spent) -> str:
        """Say that it is spent; empty while it is not."""
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"the budget of {count(self.tokens, 'token')} is spent"
        if self.usd is not None and (spent.usd or 0.0) >= self.usd:
            return f"the budget of {self.usd:g} USD is spent"
        return ""


def tasks_of(head: RunHead) -> Iterator[Task]:
    """Return all runs, both arms of a case next to each other: what changes with time meets both alike."""
    most = max((case.repeat or head.repeat for case in head.cases), default=0)
    for repeat in range(most):
        for case in head.cases:
            if repeat >= (case.repeat or head.repeat):
                continue
            # Whether a skill is chosen cannot be asked without it.
            arms = head.arms if case.kind == "task" and case.skill else ("with",)
            for model in head.models:
                for arm in arms:
                    yield Task(case, model, arm, repeat)


class Stop:
    """Ends all that runs; what is done is kept."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._controls: set[RunControl] = set()
        self._lock = threading.Lock()

    def request(self) -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            self.requested.set()
            for control in self._controls:
                control.request_drain("stop")

    def begin(self) -> RunControl:
        """Return the control of one more run."""
        control = RunControl()
        with self._lock:
            self._controls.add(control)
            if self.requested.is_set():
                control.request_drain("stop")
        return control

    def end(self, control: RunControl) -> None:
        """Forget a run that has ended."""
        with self._lock:
            self._controls.discard(control)


def run_all(  # noqa: PLR0913 - what a run is made of, each by its name
    folder: RunFolder,
    setup: Setup,
    *,
    jobs: int,
    budget: Budget,
    stop: Stop,
    done: Collection[EvalResult] = (),
    tell: Callable[[EvalResult], None] = lambda _: None,
    grade: Callable[[EvalCase, EvalResult], EvalResult] = lambda _, result: result,
) -> str:
    """Run what has no result yet; keep each result as it comes, and tell of it. Return why it ended early.

    A run that was stopped in the middle is not kept: it begins anew when the run goes on.
    """
    known = {each.key for each in done}
    waiting = iter([task for task in tasks_of(folder.head) if task.key not in known])
    spent = sum((each.spent + each.grading for each in done), Spent(usd=0.0))
    running: set[Future[EvalResult | None]] = set()
    partial = ""

    def work(task: Task) -> EvalResult | None:
        control = stop.begin()
        try:
            result = run_case(*task, setup, control)
        finally:
            stop.end(control)
        if stop.requested.is_set():
            return None
        return grade(task.case, result)

    with ThreadPoolExecutor(jobs, thread_name_prefix="eval") as pool:
        while True:
            partial = partial or budget.spent_by(spent)
            while not partial and not stop.requested.is_set() and len(running) < jobs:
                task = next(waiting, None)
                if task is None:
                    break
                running.add(pool.submit(work, task))
            if not running:
                break
            ended, running = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
            for future in ended:
                result = future.result()
                if result is not None:
                    folder.append(result)
                    spent += result.spent + result.grading
                    tell(result)
    if stop.requested.is_set():
        return "it was interrupted"
    return partial if next(waiting, None) is not None else ""


def missing(head: RunHead, results: Sequence[EvalResult]) -> int:
    """Return how many runs have no result."""
    known = {each.key for each in results}
    return sum(task.key not in known for task in tasks_of(head))
