"""Run many eval cases: side by side, within a budget, and so that a killed run can go on."""

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, NamedTuple

from langgraph.runtime import RunControl

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.result import Arm, EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder
from skills_agent.evals.cases.trajectory import Spent
from skills_agent.evals.errors import BudgetError
from skills_agent.evals.laying import remove_left_places
from skills_agent.evals.prices import price_of
from skills_agent.evals.running import Setup, run_case
from skills_agent.graph.setting_values import Price
from skills_agent.skills.text import count

_POLL: float = 0.2
"""Seconds between two looks whether a signal came."""
_TIMES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_AMOUNT: Final = re.compile(
    r"(?P<sign>\$)?\s*(?P<amount>[0-9]{1,12}(\.[0-9]{1,6})?)\s*(?P<times>[kKmM])?\s*(?P<money>(?i:usd))?"
)


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
    """What all cases of a command together may take; None: no limit."""

    tokens: int | None = None
    usd: float | None = None

    def spent_by(self, spent: Spent) -> str:
        """Say that it is spent; empty while it is not."""
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"the budget of {count(f'{self.tokens:,}' if self.tokens != 1 else 1, 'token')} is spent"
        if self.usd is not None and (spent.usd or 0.0) >= self.usd:
            return f"the budget of {self.usd:g} USD is spent"
        return ""


def parse_budget(text: str, models: Iterable[str], prices: Mapping[str, Price]) -> Budget:
    """Return a budget of tokens (`50000`, `50_000`, `50k`, `2M`) or of money (`2.50USD`, `$2.5`).

    Raises BudgetError, also for money where the price of a model is not known.
    """
    match = _AMOUNT.fullmatch(text.strip().replace(",", "").replace("_", ""))
    if match is None:
        raise BudgetError(text, "give tokens (50000, 50k, 2M) or money (2.50USD)")
    amount = float(match["amount"])
    if not (match["sign"] or match["money"]):
        tokens = int(amount * _TIMES[(match["times"] or "").lower()])
        if not tokens:
            raise BudgetError(text, "nothing can be run with that")
        return Budget(tokens=tokens)
    if match["times"] or (match["sign"] and match["money"]):
        raise BudgetError(text, "write money as 2.50USD")
    unknown = [model for model in models if price_of(model, prices) is None]
    if unknown:
        example = f'{{"{unknown[0]}": {{"input": 0.25, "output": 2.0}}}}'
        raise BudgetError(text, f"the price of {unknown[0]} is not known: set `prices`, {example}")
    return Budget(usd=amount)


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


class Stop(RunControl):
    """Ends all that runs; what is done is kept. A signal drains it as the control of one invocation."""

    def __init__(self) -> None:
        super().__init__()
        self._controls: set[RunControl] = set()
        self._lock = threading.Lock()

    def request_drain(self, reason: str = "stop") -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            super().request_drain(reason)
            for control in self._controls:
                control.request_drain(reason)

    @contextmanager
    def control(self) -> Iterator[RunControl]:
        """Yield the control of one more run."""
        control = RunControl()
        with self._lock:
            self._controls.add(control)
            if self.drain_reason is not None:
                control.request_drain(self.drain_reason)
        try:
            yield control
        finally:
            with self._lock:
                self._controls.discard(control)


def run_all(
    folder: RunFolder,
    setup: Setup,
    *,
    jobs: int,
    budget: Budget,
    stop: Stop,
    done: Collection[EvalResult] = (),
    tell: Callable[[EvalResult], None] = lambda _: None,
) -> str:
    """Run what has no result yet; keep each result as it comes, and tell of it. Return why it ended early.

    A run that was stopped in the middle is not kept: it begins anew when the run goes on. What was done
    before does not count for the budget.
    """
    remove_left_places()
    known = {each.key for each in done}
    waiting = iter([task for task in tasks_of(folder.head) if task.key not in known])
    spent = Spent(usd=0.0)
    running: set[Future[EvalResult | None]] = set()
    partial = ""

    with ThreadPoolExecutor(jobs, thread_name_prefix="eval") as pool:
        while True:
            partial = partial or budget.spent_by(spent)
            while not partial and not stop.drain_requested and len(running) < jobs:
                task = next(waiting, None)
                if task is None:
                    break
                running.add(pool.submit(_run_one, task, setup, stop))
            if not running:
                break
            ended, running = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
            for future in ended:
                result = future.result()
                if result is not None:
                    folder.append(result)
                    spent += result.spent + result.grading
                    tell(result)
    if stop.drain_requested:
        return "it was interrupted"
    return partial if next(waiting, None) is not None else ""


def _run_one(task: Task, setup: Setup, stop: Stop) -> EvalResult | None:
    """Run a case once; None where it was stopped in the middle."""
    with stop.control() as control:
        result = run_case(*task, setup, control)
    if not stop.drain_requested:
        return result
    if result.thread:  # It begins anew, in another thread, when the run goes on.
        setup.database.saver.delete_thread(result.thread)
    return None


def missing(head: RunHead, results: Sequence[EvalResult]) -> int:
    """Return how many runs have no result."""
    known = {each.key for each in results}
    return sum(task.key not in known for task in tasks_of(head))
