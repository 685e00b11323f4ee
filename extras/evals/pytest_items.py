"""Eval cases as tests of pytest, with all that they take."""

import os
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from skills_agent.evals.cases.eval_folder import file_of
from skills_agent.evals.cases.result import EvalResult, RunHead
from skills_agent.evals.run_headers import new_head
from skills_agent.evals.running import Setup, run_case
from skills_agent.evals.runs import RunTask, tasks_of
from skills_agent.evals.setups import make_setup
from skills_agent.graph.services import usual_model
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import open_database
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.skills.risk import RISKS
from skills_agent.skills.visible import visible

_ANSWER: Final = 500
"""Characters of it that are shown."""


class SkillEvals:
    """The eval cases of one session of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        """Read nothing yet."""
        self._config = config
        self._open = ExitStack()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add a test for each case; `-k` chooses among them as among all others."""
        for task in tasks_of(self.head):
            number = f"[{task.repeat + 1}]" if (task.case.repeat or 1) > 1 else ""
            name = task.case.id.rpartition("/")[2] + number
            place = os.path.relpath(file_of(task.case), self._config.rootpath)
            given = {"name": name, "nodeid": f"{place}::{name}", "task": task, "evals": self}
            items.append(EvalItem.from_parent(session, **given))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Make what the chosen cases share: a missing key is said once, and not by each of them.

        Not in a worker of xdist, which has no way to say why it ends.
        """
        is_run = not session.config.option.collectonly and not hasattr(session.config, "workerinput")
        if is_run and any(isinstance(each, EvalItem) for each in session.items):
            _ = self.setup

    def pytest_unconfigure(self) -> None:
        """Close the database of threads."""
        self._open.close()

    @cached_property
    def head(self) -> RunHead:
        """What is run. Raises UsageError for files that cannot be read."""
        option = self._config.getoption
        try:
            return new_head(
                self._settings,
                [self._config.invocation_params.dir / each for each in option("skills_evals")],
                models=[option("skills_evals_model") or usual_model(self._settings, None)],
                grader=option("skills_evals_grader"),
                recording="replay" if option("skills_evals_replay") else "",
            )
        except SkillsAgentError as error:
            raise pytest.UsageError(f"--skills-evals: {error}") from error

    @cached_property
    def setup(self) -> Setup:
        """What all cases share. Raises UsageError for a model that cannot be asked."""
        words = [word.strip() for word in self._config.getoption("skills_evals_yes").split(",") if word]
        if unknown := sorted({*words} - {*RISKS}):
            raise pytest.UsageError(f"--skills-evals-yes: no kind {unknown[0]!r}; kinds: {', '.join(RISKS)}")
        saver = self._open.enter_context(open_database(self._settings))
        try:
            return make_setup(self._settings, self.head, saver, [risk for risk in RISKS if risk in words])
        except SkillsAgentError as error:
            raise pytest.UsageError(f"--skills-evals: {error}") from error

    @cached_property
    def _settings(self) -> Settings:
        return Settings.load(self._config.rootpath)


class EvalItem(pytest.Item):
    """One run of one case."""

    def __init__(self, *, task: RunTask, evals: SkillEvals, **more: Any) -> None:
        super().__init__(path=file_of(task.case), **more)
        self._task = task
        self._evals = evals

    def runtest(self) -> None:
        """Run the case; what nothing decides is skipped."""
        result = run_case(*self._task, self._evals.setup)
        if result.outcome == "ungraded":
            pytest.skip("nothing decides without a grader: --skills-evals-grader MODEL")
        if result.outcome != "passed":
            pytest.fail(_story(result), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the case stands."""
        return self.path, None, self._task.case.id


def _story(result: EvalResult) -> str:
    """Return what went wrong, the most telling line first: pytest's summary shows no other."""
    lines = [
        f"{result.outcome}: {result.error}" if result.error else "",
        *(f"{check.text} {check.evidence}".strip() for check in result.checks if not check.passed),
        f"Calls: {', '.join(call.tool for call in result.trajectory.calls) or 'none'}",
        f"The answer: {result.trajectory.answer[:_ANSWER]}",
        f"To see all of it: skills-agent threads show {result.thread}",
    ]
    return visible("\n".join(filter(None, lines)), "prose")
