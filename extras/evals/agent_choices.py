"""The choices of the agent itself: what its model loads first, of all that its own prompt shows."""

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final

from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import override

from skills_agent.evals.cases.case import EvalCase, Expected
from skills_agent.evals.cases.choosing import Choice
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.cases.trajectory import Spent
from skills_agent.evals.places import EvaluatedSource
from skills_agent.evals.running import Setup, run_case
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.opened import Database
from skills_agent.nodes.wrapped_models import ModelRunnable
from skills_agent.skills.format.rewriting import with_description
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.sources import Source
from skills_agent.skills.text import one_line

_JOBS: Final = 4
_LONGEST_WHY: Final = 80


class AgentChooser:
    """A Chooser: each request is the first message of a thread, which ends when the model has chosen."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        model: ModelRunnable,
        skill: SkillMetadata,
        sources: Sequence[Source],
    ) -> None:
        """Ask nothing yet. `skill` is the one whose description may be another; `sources` have it, too."""
        self._settings, self._name, self._model = settings, name, model
        self._skill, self._sources = skill, sources
        self._known: dict[tuple[str, str], Choice] = {}
        self.spent = Spent(usd=0.0)

    def choose(self, requests: Sequence[str], descriptions: Mapping[str, str]) -> list[Choice]:
        """Return the choice for each request; what was asked once is not asked again.

        Raises EvalError, and NotRewrittenError for a description that cannot be put into the skill.
        """
        described = descriptions[self._skill.name]
        new = [each for each in dict.fromkeys(requests) if (each, described) not in self._known]
        ask = partial(self._ask, self._sources_with(described))
        with ThreadPoolExecutor(_JOBS, thread_name_prefix="triggers") as pool:
            # The first alone: the others find its prompt in the provider's cache.
            results = [*map(ask, new[:1]), *pool.map(ask, islice(new, 1, None))]
        for request, result in zip(new, results, strict=True):
            self.spent += result.spent
            if result.outcome in {"error", "refused", "timeout"}:
                raise EvalError(f"The model {self._name} is of no use here: {result.error}")
            chosen = next((name for name in result.trajectory.chosen if name in descriptions), "")
            why = "" if chosen else one_line(result.trajectory.answer, _LONGEST_WHY)
            self._known[request, described] = Choice(chosen, why)
        return [self._known[each, described] for each in requests]

    def _ask(self, sources: Sequence[Source], request: str) -> EvalResult:
        setup = Setup(
            self._settings,
            Database(InMemorySaver(), None),
            "triggers",
            lambda: sources,
            model_of=lambda *_: self._model,
        )
        case = EvalCase(
            id="request", skill=self._skill.name, kind="trigger", turns=(request,), expect=Expected()
        )
        return run_case(case, self._name, "with", 0, setup)

    def _sources_with(self, described: str) -> list[Source]:
        if described == self._skill.described:
            return [EvaluatedSource(each) for each in self._sources]
        return [_Redescribed(each, self._skill, described) for each in self._sources]


class _Redescribed(EvaluatedSource):
    """A source that has another description of a skill."""

    def __init__(self, source: Source, skill: SkillMetadata, description: str) -> None:
        super().__init__(source)
        self._skill, self._text = skill, b""
        if source.label == skill.source and source.claims(skill.path):
            self._text = with_description(source.read(skill.path, sys.maxsize), description)

    @override
    def read(self, path: str, limit: int) -> bytes:
        return self._text[:limit] if self._text and path == self._skill.path else super().read(path, limit)
