"""Run one eval case: a fresh workspace, a thread of its own, the agent as it is, and what came of it."""

import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from msgspec import structs

from skills_agent.graph.build import wire
from skills_agent.graph.evals.trajectories import digests_of, spent_of, trajectory_of
from skills_agent.graph.kept_folders import empty, homes_of
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.places import process_environment
from skills_agent.graph.services import Services, make_services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.compiled import CompiledAgent, status_of
from skills_agent.graph.threads.database import Database, config_of
from skills_agent.nodes.wrapped_models import ModelRunnable
from skills_agent.skills.confined import parts_of
from skills_agent.skills.errors import SkillError, SkillsAgentError
from skills_agent.skills.evals.case import EvalCase, LaidFile, ScriptCheck
from skills_agent.skills.evals.checks import check
from skills_agent.skills.evals.result import Arm, CheckResult, EvalResult, Outcome
from skills_agent.skills.evals.trajectory import Trajectory
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.risk import Risk
from skills_agent.skills.policy.verdict import Opinion
from skills_agent.skills.scripts.bwrap import probe
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.sources import Source
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentInput
from skills_agent.state.transcript import SEARCH_SKILLS, open_calls, refusal

SCRIPTED: Final = "scripted"
"""The model that plays a case's own `replies`."""
_ALLOWED: Final[frozenset[Risk]] = frozenset({"run", "write", "delete"})
"""What a case may do unasked where the sandbox works: its workspace is thrown away."""
_MOST_SEARCHES: Final = 3
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ENDED: Final = "Not run: this eval case is about which skill is chosen, and that is known."

MakeSources = Callable[[str], Sequence[Source]]
"""Makes the sources of one case, given the label that they get."""


@dataclass(frozen=True)
class Setup:
    """What all cases of a run share."""

    settings: Settings
    """Of the workspace that the command was typed in."""
    database: Database
    """Keeps the threads."""
    run: str
    """Id of the run."""
    sources: MakeSources
    yes: Collection[Risk] = ()
    """What runs unasked without a sandbox, or beyond it."""
    model_of: Callable[[EvalCase, str], ModelRunnable | None] = lambda case, name: None  # noqa: ARG005
    """Returns the model of a case where it is not just the one of that name: recorded, replayed, scripted."""

    def thread(self, case: EvalCase, model: str, arm: Arm, repeat: int) -> str:
        """Return the id of the thread of one run of a case."""
        words = "-".join(part for part in (case.id, model, arm, str(repeat + 1)) if part)
        safe = "".join(
            each if (each.isalnum() and each.isascii()) or each in "._-" else "-" for each in words
        )
        return f"eval-{self.run}-{safe}"[:56] + f"-{secrets.token_hex(3)}"


def run_case(
    case: EvalCase, model: str, arm: Arm, repeat: int, setup: Setup, control: RunControl | None = None
) -> EvalResult:
    """Run a case once and check what came of it; `control` ends it early, as a signal does.

    What goes wrong with the agent, its model or the case is an outcome, not an error.
    """
    thread, began = setup.thread(case, model, arm, repeat), monotonic()
    with tempfile.TemporaryDirectory(prefix="skills-agent-eval-") as place:
        workspace = Path(place).resolve() / "workspace"
        workspace.mkdir()
        try:
            lay(case.files, workspace)
            with _agent(case, model, arm, workspace, setup) as (agent, services):
                ended = _ended(case, _Run(agent, services, thread, workspace), control or RunControl())
                if ended.outcome == "passed":
                    run_script = _script_runner(services, setup.yes)
                    spent = spent_of(ended.values, monotonic() - began)
                    checks = check(_checked(case, arm), ended.trajectory, spent, workspace, run_script)
                    ended = ended._replace(checks=checks, outcome=_outcome(case, checks))
        except (SkillsAgentError, OSError) as failure:
            ended = _Ended("error", str(failure))
    return EvalResult(
        case=case.id,
        model=model,
        arm=arm,
        repeat=repeat,
        outcome=ended.outcome,
        checks=ended.checks,
        error=ended.error,
        trajectory=ended.trajectory,
        spent=spent_of(ended.values, monotonic() - began),
        thread=thread,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class _Run(NamedTuple):
    agent: CompiledAgent
    services: Services
    thread: str
    workspace: Path


class _Ended(NamedTuple):
    """How a run ended; `passed` until the checks say otherwise."""

    outcome: Outcome
    error: str = ""
    trajectory: Trajectory = Trajectory()
    values: Mapping[str, Any] = MappingProxyType({})
    checks: tuple[CheckResult, ...] = ()


def _ended(case: EvalCase, run: _Run, control: RunControl) -> _Ended:
    """Let the agent work, and return what is known when it has ended. Raises nothing of the model's."""
    before = digests_of(run.workspace)
    config = config_of(run.thread, {"eval": case.id})
    failure = ""
    with _ending_after(case.seconds, control) as is_late:
        try:
            _take_turns(run.agent, case, config, control)
        except SkillsAgentError as error:
            failure = str(error)
    snapshot = run.agent.get_state(config)
    files = {path: sha for path, sha in digests_of(run.workspace).items() if before.get(path) != sha}
    is_choice = case.kind == "trigger"
    trajectory = trajectory_of(snapshot.values, _offered(run.services), files, asked=is_choice)
    ended = _Ended("passed", "", trajectory, snapshot.values)
    if is_late.is_set():
        return ended._replace(outcome="timeout", error=f"It was given up after {case.seconds:g} seconds.")
    if failure:
        return ended._replace(outcome="error", error=failure)
    if not is_choice and (question := _open_question(snapshot.interrupts)):
        return ended._replace(outcome="refused", error=question)
    if status_of(snapshot) == "unfinished":
        return ended._replace(outcome="error", error="It was cut off.")
    return ended


def lay(files: Sequence[LaidFile], workspace: Path) -> None:
    """Lay the files of a case into its workspace; none leads out of it. Raises OSError."""
    for each in files:
        place = workspace.joinpath(*parts_of(each.path))
        place.parent.mkdir(parents=True, exist_ok=True)
        if each.text is not None:
            place.write_text(each.text, encoding="utf-8")
        elif each.source is not None and Path(each.source).is_dir():
            shutil.copytree(each.source, place, symlinks=True, dirs_exist_ok=True)
        elif each.source is not None:
            shutil.copyfile(each.source, place)


@contextmanager
def _agent(
    case: EvalCase, model: str, arm: Arm, workspace: Path, setup: Setup
) -> Iterator[tuple[CompiledAgent, Services]]:
    """Make the agent of one run; what its scripts kept in their homes goes with it."""
    label = f"eval-{secrets.token_hex(4)}"
    hidden = [f"Skill({case.skill})"] if arm == "without" and case.skill else []
    settings = replace(
        setup.settings,
        workspace=workspace,
        skills_dirs=(),
        offered_dirs=(),
        # A case may not reach what the user's own agent does.
        mcp_servers={},
        audit="off",
        approval="ask",
        exclude_tools=(*setup.settings.exclude_tools, *hidden),
        model="" if model == SCRIPTED else model,
        sandbox="require" if _is_sandboxed(setup.settings) else setup.settings.sandbox,
    )
    chat: ModelRunnable | None = setup.model_of(case, model)
    if chat is None and model == SCRIPTED:
        chat = ScriptedChatModel(case.replies)
    sources = setup.sources(label)
    services = make_services(settings, model=chat, sources=sources, approvers=[_approver(case, setup)])
    if chat is None:
        services.requests.models.choose(Context())
    try:
        graph = wire(services)
        yield (
            graph.compile(checkpointer=setup.database.saver, store=setup.database.store, name="skills-agent"),
            services,
        )
    finally:
        for name in {skill.name for skill in services.library.shared.refresh().skills}:
            for home in homes_of(settings, name):
                if home.owner.source == label:
                    empty(home.folder.parent)


def _is_sandboxed(settings: Settings) -> bool:
    path = process_environment().get("PATH")
    return settings.sandbox != "off" and probe(path, settings.workspace).program is not None


def _approver(case: EvalCase, setup: Setup) -> Callable[[Call], Opinion | None]:
    """Return what answers in a person's place: what a throw-away workspace and the sandbox hold."""
    allowed = {*setup.yes, *(_ALLOWED if _is_sandboxed(setup.settings) else {"write", "delete"})}
    del case

    def of_the_run(call: Call) -> Opinion | None:
        if call.risk in allowed:
            return Opinion("allow", "the workspace of an eval case is thrown away")
        return None

    return of_the_run


def _take_turns(agent: CompiledAgent, case: EvalCase, config: RunnableConfig, control: RunControl) -> None:
    """Say what the case says, turn by turn; a drained run ends where it is."""
    for number, text in enumerate(case.turns):
        said = AgentInput(messages=[HumanMessage(text)], skills=list(case.load) if number == 0 else [])
        with suppress(GraphDrained):
            if case.kind == "trigger":
                _choose_only(agent, said, config, control)
                return
            _invoke(agent, said, config, control)
        if control.drain_requested:
            return


def _invoke(
    agent: CompiledAgent, said: AgentInput | None, config: RunnableConfig, control: RunControl, **options: Any
) -> None:
    for _ in agent.stream(
        said,
        config,
        stream_mode="updates",
        durability="exit",
        version="v2",
        control=control,
        context=Context(),
        **options,
    ):
        pass


def _choose_only(agent: CompiledAgent, said: AgentInput, config: RunnableConfig, control: RunControl) -> None:
    """Let the model choose, and run nothing: which skill it asks for is known after its first reply.

    One that searches first may look at what it found. The thread is ended, so that nothing resumes it.
    """
    given: AgentInput | None = said
    for _ in range(1 + _MOST_SEARCHES):
        _invoke(agent, given, config, control, interrupt_after=["decide"])
        messages: list[AnyMessage] = agent.get_state(config).values.get("messages") or []
        calls = open_calls(messages)
        if not calls or any(call["name"] != SEARCH_SKILLS for call in calls):
            break
        given = None
    if calls := open_calls(messages):
        ended = [refusal(call["id"] or "", call["name"], _ENDED) for call in calls]
        agent.update_own_state(config, {"messages": ended}, as_node="answer")


@contextmanager
def _ending_after(seconds: float, control: RunControl) -> Iterator[threading.Event]:
    """End what runs in the block after a time; the event says that it was late."""
    late = threading.Event()

    def end() -> None:
        late.set()
        control.request_drain("timeout")

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _offered(services: Services) -> list[str]:
    return [skill.name for skill in services.library.shared.refresh().skills if skill.model_invocable]


def _open_question(interrupts: Sequence[Any]) -> str:
    """Say what a run waits for that nobody answers; empty where it waits for nothing."""
    for interrupt in interrupts:
        requests = interrupt.value.get("action_requests") or [] if isinstance(interrupt.value, dict) else []
        names = ", ".join(str(each.get("name", "")) for each in requests)
        what = names or "a question"
        return f"It stopped before {what}, which needs a person. To allow calls of a kind: --yes run,network"
    return ""


def _checked(case: EvalCase, arm: Arm) -> EvalCase:
    """Return a case with what can hold in an arm: without the skill only what came out counts."""
    if arm == "with":
        return case
    return structs.replace(case, expect=structs.replace(case.expect, skills=None, calls=None))


def _outcome(case: EvalCase, checks: Sequence[CheckResult]) -> Outcome:
    if not all(each.passed for each in checks):
        return "failed"
    return "passed" if checks or not case.expect.rubric else "ungraded"


def _script_runner(
    services: Services, yes: Collection[Risk]
) -> Callable[[ScriptCheck, Path], tuple[bool, str]]:
    """Return what runs a case's own program: in the sandbox, as the script of an untrusted skill."""
    may_run = "run" in yes or services.settings.sandbox == "require"

    def run(script: ScriptCheck, workspace: Path) -> tuple[bool, str]:
        if not may_run:
            return False, "it was not run: there is no sandbox here. To run it all the same: --yes run"
        request = ScriptRequest(
            skill="",
            script=Path(script.path),
            args=script.args,
            stdin=None,
            workdir=workspace,
            timeout=script.seconds,
            source="eval",
            trusted=False,
        )
        try:
            result = services.policy.runner.run(request)
        except SkillError as error:
            return False, str(error)
        said = "\n".join(filter(None, [result.stdout.strip(), result.stderr.strip()]))
        ended = f"stopped: {result.stopped}" if result.stopped else f"exit code {result.exit_code}"
        return result.exit_code == 0, f"{ended}. {said}".strip()

    return run
