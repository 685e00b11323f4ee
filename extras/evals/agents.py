"""Who answers in a run of evals: this agent, or one that a person made (`--agent NAME=MODULE:FUNCTION`).

Such an agent is any graph of LangGraph whose state has `messages`. A function makes one for each run of a
case, so that all that is compared has the same model, skills and files:

    def make(*, model, skills, workspace, checkpointer) -> CompiledStateGraph

`model` is a chat model of LangChain, `skills` a fresh folder with a folder for each skill that there is,
`workspace` the folder that the case is about, both absolute.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from shutil import copytree
from threading import Lock
from typing import Any, Final, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, StateSnapshot
from msgspec import structs
from typing_extensions import override

from skills_agent.evals.cases.case import EvalCase
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.trajectory import MadeCall, Spent, Trajectory
from skills_agent.evals.recording import TOOLS
from skills_agent.evals.trajectories import calls_inside, spent_of, trajectory_of
from skills_agent.graph.threads.compiled import CompiledAgent
from skills_agent.graph.threads.thread import status_of
from skills_agent.graph.threads.threads import Threads
from skills_agent.graph.tools.held import can_approve_changes
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentInput
from skills_agent.state.transcript import LOAD_SKILL, SEARCH_SKILLS, open_calls, refusal

OURS: Final = "skills-agent"
"""The name of this agent, among others."""
MakeAgent = Callable[..., CompiledStateGraph[Any, Any, Any, Any]]
_MOST_SEARCHES: Final = 3
_MOST_QUESTIONS: Final = 100
"""Of one turn, that are answered."""
_ENDED: Final = "Not run: this eval case is about which skill is chosen, and that is known."


class Ended(NamedTuple):
    """What became of a thread when a case has said all."""

    trajectory: Trajectory
    """Without its files."""
    spent: Spent
    """Without its seconds."""
    question: Any
    """The value of the interrupt that nobody answered; None where there is none."""
    is_whole: bool
    """False where it was cut off in the middle."""


class OwnAgent:
    """This agent: what a person would be asked about changes is approved, all else is policy's."""

    def __init__(self, graph: CompiledAgent, config: RunnableConfig) -> None:
        self._graph, self._config = graph, config

    def take_turns(self, case: EvalCase, control: RunControl) -> None:
        """Say what the case says; a drained run ends where it is."""
        for number, text in enumerate(case.turns):
            said = AgentInput(messages=[HumanMessage(text)], skills=list(case.load) if number == 0 else [])
            with suppress(GraphDrained):
                if case.kind == "trigger":
                    self._choose_only(said, control)
                    return
                self._invoke(said, control)
                self._let_changes_come(control)
            if control.drain_requested:
                return

    def ended(self, case: EvalCase) -> Ended:
        """Return what came of it, its forks with it."""
        state = self._state()
        inside = calls_inside(Threads(self._graph), self._config["configurable"]["thread_id"], state)
        return Ended(
            trajectory_of(state.values, asked=case.kind == "trigger", inside=inside),
            spent_of(state.values),
            state.interrupts[0].value if state.interrupts else None,
            is_whole=status_of(state) != "unfinished",
        )

    def _let_changes_come(self, control: RunControl) -> None:
        """Approve what scripts changed, and would be asked about: the workspace is thrown away."""
        while questions := [it for it in self._state().interrupts if can_approve_changes(it.value)]:
            self._invoke(_approval({question.id: 1 for question in questions}), control)

    def _choose_only(self, said: AgentInput, control: RunControl) -> None:
        """Let the model choose, and run nothing: which skill it asks for is known after its first reply.

        One that searches first may look at what it found. The thread is ended, so that nothing resumes it.
        """
        given: AgentInput | None = said
        for _ in range(1 + _MOST_SEARCHES):
            self._invoke(given, control, interrupt_after=["decide"])
            messages: list[AnyMessage] = self._state().values.get("messages") or []
            calls = open_calls(messages)
            if not calls or any(call["name"] != SEARCH_SKILLS for call in calls):
                break
            given = None
        if calls:
            ended = [refusal(call["id"] or "", call["name"], _ENDED) for call in calls]
            self._graph.update_own_state(self._config, {"messages": ended}, as_node="answer")
        else:
            self._invoke(None, control)

    def _state(self) -> StateSnapshot:
        return self._graph.get_state(self._config)

    def _invoke(self, said: AgentInput | Command[Any] | None, control: RunControl, **options: Any) -> None:
        self._graph.invoke(
            said, self._config, durability="async", control=control, context=Context(), **options
        )


class OtherAgent:
    """Another graph. Of a skill, it chose what it loads by name, or whose SKILL.md it reads.

    What it asks a person, in LangChain's schema, is approved where `approves` says so.
    """

    def __init__(
        self,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        config: RunnableConfig,
        skills: Path,
        *,
        approves: bool,
    ) -> None:
        self._graph, self._skills, self._approves = graph, skills, approves
        self._usage = _Usage()
        self._config: RunnableConfig = {**config, "callbacks": [self._usage]}
        self._approvals = 0

    def take_turns(self, case: EvalCase, control: RunControl) -> None:
        """Say what the case says; a drained run ends where it is."""
        for text in case.turns:
            given: Any = {"messages": [HumanMessage(text)]}
            for _ in range(_MOST_QUESTIONS):
                with suppress(GraphDrained):
                    if case.kind == "trigger":
                        self._choose_only(given, control)
                        return
                    self._graph.invoke(given, self._config, durability="async", control=control)
                if control.drain_requested or not (given := self._answer()):
                    break
            if control.drain_requested or self._state().interrupts:
                return

    def ended(self, case: EvalCase) -> Ended:
        """Return what came of it."""
        state = self._state()
        trajectory = trajectory_of(state.values, asked=case.kind == "trigger")
        names = sorted(each.name for each in self._skills.iterdir())
        chosen = dict.fromkeys(name for call in trajectory.calls for name in _chosen_by(call, names))
        return Ended(
            structs.replace(trajectory, chosen=tuple(chosen)),
            structs.replace(self._usage.spent, approvals=self._approvals),
            state.interrupts[0].value if state.interrupts else None,
            is_whole=not state.next or case.kind == "trigger",
        )

    def _choose_only(self, given: Any, control: RunControl) -> None:
        """Let it run, node by node, until the model has called what it has, or nothing: nothing of it is run.

        Where it calls for what there is not, it may choose again once it is told, as in any turn.
        """
        for _ in range(1 + _MOST_SEARCHES):
            calls = self._usage.spent.model_calls
            while calls == self._usage.spent.model_calls and not control.drain_requested:
                options: Any = {"interrupt_after": "*", "durability": "async", "control": control}
                self._graph.invoke(given, self._config, **options)
                given = None
                if not self._state().next:
                    return
            calls_made = trajectory_of(self._state().values).calls
            last = {call.tool for call in calls_made if call.step == calls_made[-1].step}
            if last - {SEARCH_SKILLS} and not self._usage.is_unknown(last):
                return

    def _answer(self) -> Command[Any] | None:
        """Return the approval of what it asks; None where it asks nothing that may be approved."""
        questions = self._state().interrupts if self._approves else ()
        if not questions or not all(_may_be_approved(each.value) for each in questions):
            return None
        many = {each.id: len(each.value["action_requests"]) for each in questions}
        self._approvals += sum(many.values())
        return _approval(many)

    def _state(self) -> StateSnapshot:
        return self._graph.get_state(self._config)


class _Usage(BaseCallbackHandler):
    """Counts what the model calls of a graph took, those of its subagents among them, as providers say it."""

    def __init__(self) -> None:
        self.spent = Spent()
        self._offered: set[str] = set()
        self._lock = Lock()

    def is_unknown(self, tools: Set[str]) -> bool:
        """Return whether the model was offered tools, and none of these."""
        return bool(self._offered) and not tools & self._offered

    @override
    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        given = kwargs.get("invocation_params") or {}
        for each in given.get("tools") or given.get(TOOLS) or ():
            self._offered.add(str(each.get("name") or each.get("function", {}).get("name")))

    @override
    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        usages: list[Mapping[str, Any]] = [
            each.message.usage_metadata or {}
            for some in response.generations
            for each in some
            if isinstance(each, ChatGeneration) and isinstance(each.message, AIMessage)
        ]
        with self._lock:
            for usage in usages or [{}]:
                self.spent += Spent(
                    model_calls=1,
                    input_tokens=usage.get("input_tokens", 0),
                    output_tokens=usage.get("output_tokens", 0),
                    cached_tokens=usage.get("input_token_details", {}).get("cache_read", 0),
                )


def _chosen_by(call: MadeCall, names: Sequence[str]) -> Iterator[str]:
    """Yield the skills that a call asks for; a file is read by whatever tool has its path."""
    texts = [each for each in call.args.values() if isinstance(each, str)]
    for name in names:
        is_asked = call.tool == LOAD_SKILL and any(text.partition("@")[0] == name for text in texts)
        if is_asked or any(f"/{name}/{SKILL_FILE}" in f"/{text}" for text in texts):
            yield name


def make_other(
    make: MakeAgent,
    case: EvalCase,
    config: RunnableConfig,
    *,
    skills: Path,
    approves: bool,
    **given: Any,
) -> OtherAgent:
    """Return the agent that a function makes. Raises EvalError for a case or a result that is of no use."""
    if case.load:
        raise EvalError(f"{case.id} loads {', '.join(case.load)} as a person does: only {OURS} can.")
    graph = make(skills=skills, **given)
    if not isinstance(graph, CompiledStateGraph):
        raise EvalError(f"{make.__name__} made a {type(graph).__name__}, which is no compiled graph.")
    return OtherAgent(graph, config, skills, approves=approves)


def lay_skills(registry: Registry, folder: Path, left_out: str) -> Path:
    """Copy the skills that a model may load into a folder, each by its name, but for one."""
    for skill in registry.refresh().loadable({left_out}):
        snapshot = registry.snapshot(SkillRef(skill.name, skill.source, skill.path))
        copytree(snapshot.folder, folder / skill.name)
    return folder


def maker_of(reference: str) -> MakeAgent:
    """Return the function of `MODULE:NAME` or `FILE.py:NAME`. Raises EvalError."""
    place, _, name = reference.rpartition(":")
    try:
        if not place.endswith(".py"):
            return getattr(import_module(place), name)  # type: ignore[no-any-return]
        spec = spec_from_file_location(Path(place).stem, place)
        if spec is None or spec.loader is None:
            raise ImportError(f"{place} is no module")  # noqa: TRY301 - said as all else is
        sys.modules[spec.name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)  # type: ignore[no-any-return]
    except (ImportError, OSError, AttributeError, ValueError, SyntaxError) as error:
        raise EvalError(
            f"--agent {reference}: {error}. Name a function: MODULE:NAME or FILE.py:NAME."
        ) from error


def _may_be_approved(question: Any) -> bool:
    reviews = (question.get("review_configs") if isinstance(question, dict) else None) or ()
    return bool(reviews) and all("approve" in each.get("allowed_decisions", ()) for each in reviews)


def _approval(questions: Mapping[str, int]) -> Command[Any]:
    """Return the approval of so many requests of each question, by its id."""
    yes = {"type": "approve"}
    return Command(resume={name: {"decisions": [yes] * many} for name, many in questions.items()})
