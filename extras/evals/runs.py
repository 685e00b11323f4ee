"""Run many eval cases: side by side, and so that a killed run can go on."""

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from langgraph.runtime import RunControl

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.result import Arm, EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder
from skills_agent.evals.cases.trajectory import Budget, Spent
from skills_agent.evals.running import Setup, run_case

_POLL: float = 0.2
"""Seconds between two looks whether a signal came."""


class RunTask(NamedTuple):
    """One run of one case."""

    case: EvalCase
    model: str
    arm: Arm
    repeat: int

    @property
    def key(self) -> tuple[str, str, Arm, int]:
        """Return the key of its result."""
        return self.case.id, self.model, self.arm, self.repeat


def tasks_of(head: RunHead) -> Iterator[RunTask]:
    """Return all runs, both arms of a case next to each other: what changes with time meets both alike."""
    most = max((case.repeat or head.repeat for case in head.cases), default=0)
    for repeat in range(most):
        for case in head.cases:
            if repeat >= (case.repeat or head.repeat):
                continue
            # Whether a skill is chosen cannot be asked without it.
            arms = head.arms if case.kind == "task" and case.skill else ("with",)
            yield from (RunTask(case, model, arm, repeat) for model in head.labels for arm in arms)


def run_all(
    folder: RunFolder,
    setup: Setup,
    *,
    jobs: int,
    stop: RunControl,
    budget: Budget | None = None,
    done: Collection[EvalResult] = (),
    tell: Callable[[EvalResult], None] = lambda _: None,
) -> str:
    """Run what has no result yet; keep each result as it comes, and tell of it. Return why it ended early.

    `stop` ends all that runs: what is done is kept, and what was stopped in the middle begins anew when the
    run goes on. No case begins when the `budget` is spent.
    """
    waiting = iter(missing(folder.head, done))
    spent = Spent()
    running: set[Future[EvalResult | None]] = set()
    partial = ""
    with ThreadPoolExecutor(jobs, thread_name_prefix="eval") as pool:
        while True:
            if budget is not None and budget.taken(spent) >= budget.most:
                partial = f"its budget of {budget} is spent"
            while not partial and not stop.drain_requested and len(running) < jobs:
                if (task := next(waiting, None)) is None:
                    break
                running.add(pool.submit(_run_one, task, setup, stop))
            if not running:
                break
            ended, running = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
            for result in filter(None, (future.result() for future in ended)):
                folder.append(result)
                spent += result.spent + result.grading
                tell(result)
    if stop.drain_requested:
        return "it was interrupted"
    return partial if next(waiting, None) is not None else ""


def _run_one(task: RunTask, setup: Setup, stop: RunControl) -> EvalResult | None:
    """Run a case once; None where it was stopped in the middle."""
    result = run_case(*task, setup, stop)
    if not stop.drain_requested:
        return result
    if result.thread:  # It begins anew, in another thread, when the run goes on.
        setup.saver.delete_thread(result.thread)
    return None


def missing(head: RunHead, results: Iterable[EvalResult]) -> list[RunTask]:
    """Return the runs that have no result."""
    known = {result.key for result in results}
    return [task for task in tasks_of(head) if task.key not in known]
