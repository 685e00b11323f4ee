"""Run one eval case: a fresh workspace, a thread of its own, the agent as it is, and what came of it."""

import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import RunControl
from msgspec import structs

from skills_agent.evals.agents import (
    OURS,
    MakeAgent,
    OtherAgent,
    OwnAgent,
    lay_skills,
    make_other,
)
from skills_agent.evals.cases.case import Command, EvalCase
from skills_agent.evals.cases.checks import check
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.eval_folder import root_of, safe_id
from skills_agent.evals.cases.result import Arm, CheckResult, EvalResult, split_label
from skills_agent.evals.cases.run_folder import RUNS
from skills_agent.evals.grading import Grade
from skills_agent.evals.recording import resolved
from skills_agent.evals.trajectories import digests_of
from skills_agent.evals.workspaces import fresh_place, lay
from skills_agent.graph.build import wire
from skills_agent.graph.machine import sandbox_here
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.services import Services
from skills_agent.graph.settings import Settings
from skills_agent.graph.threads.database import EVAL_THREADS, config_of
from skills_agent.graph.user_folders import process_environment, state_folder, trust_file_of
from skills_agent.nodes.timeouts import attended
from skills_agent.nodes.wrapped_models import ModelRunnable
from skills_agent.skills.confined import is_beneath
from skills_agent.skills.errors import SkillError, SkillsAgentError
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.verdict import Approver, Opinion
from skills_agent.skills.risk import Risk
from skills_agent.skills.scripts.runner import CONFINED, ScriptRequest
from skills_agent.skills.sources import Source
from skills_agent.skills.text import cut, one_line
from skills_agent.skills.trees import remove_tree
from skills_agent.skills.visible import visible_line
from skills_agent.state.context import Context

logger = logging.getLogger(__name__)

SCRIPTED: Final = "scripted"
"""The model that plays a case's own `replies`."""
_ALLOWED: Final[frozenset[Risk]] = frozenset({"run", "write", "delete"})
"""What a case may do unasked where the sandbox works: its workspace is thrown away."""
_GRACE_SECONDS: Final = 8
"""Until what was told to end is left."""
_SCRIPT_SECONDS: Final = 30.0
"""That a program of a case may take to judge the workspace."""
_LONGEST_ERROR: Final = 2_000
_LATE: Final = "timeout"


@dataclass(frozen=True)
class Setup:
    """What all cases of a run share."""

    settings: Settings
    """Of the workspace that the command was typed in."""
    saver: BaseCheckpointSaver[Any]
    """Keeps the threads."""
    run: str
    """Id of the run."""
    sources: Callable[[], Sequence[Source]]
    """Makes the sources of one case."""
    yes: Collection[Risk] = ()
    """What runs unasked without a sandbox, or beyond it."""
    folders: Sequence[Path] = ()
    """Where the evaluated skills are: no script may change them."""
    grade: Grade | None = None
    """Grades rubrics; None: nobody does."""
    model_of: Callable[[EvalCase, str, int], ModelRunnable | None] = lambda *_: None
    """Returns the model of a case, by name and repeat, where it is not just the one of that name."""
    agents: Mapping[str, MakeAgent] = field(default_factory=dict)
    """Makes other agents, by name."""


def run_case(
    case: EvalCase, model: str, arm: Arm, repeat: int, setup: Setup, stop: RunControl | None = None
) -> EvalResult:
    """Run a case once and check what came of it; `stop` ends it early, as a signal does.

    What goes wrong with the agent, its model or the case is an outcome, not an error.
    """
    result = EvalResult(case=case.id, model=model, arm=arm, repeat=repeat, outcome="error")
    if arm == "without":
        case = _without_its_skill(case)
    with fresh_place() as place:
        try:
            lay(case, place / "work")
            words = safe_id(f"{setup.run}-{case.id}-{model}-{arm}-{repeat + 1}")
            thread = f"{EVAL_THREADS}{words}"[:56] + f"-{secrets.token_hex(3)}"
            result = structs.replace(result, thread=thread)
            with _agent(case, result, place, setup) as (agent, services):
                result = _worked(case, result, agent, services, stop or RunControl())
                if result.outcome == "passed":
                    result = _judged(case, result, services, setup)
        except Exception as failure:  # noqa: BLE001 - one case must not end the run of two hundred others
            result = structs.replace(result, outcome="error", error=_failure_text(failure))
    return structs.replace(result, error=cut(result.error, _LONGEST_ERROR))


def _without_its_skill(case: EvalCase) -> EvalCase:
    """Return a case for the arm without the skill: nobody asks for it, and only what came out counts."""
    load = tuple(name for name in case.load if name != case.skill)
    return structs.replace(case, load=load, expect=structs.replace(case.expect, skills=None, calls=None))


def _judged(case: EvalCase, result: EvalResult, services: Services, setup: Setup) -> EvalResult:
    """Hold what a case expects against what came of it."""
    workspace = services.settings.workspace
    if case.expect.scripts and "run" not in setup.yes and services.settings.sandbox != "require":
        what = f"the check {visible_line(Path(case.expect.scripts[0][0]).name)}"
        why = "there is no sandbox here, and without one it could change anything"
        return structs.replace(result, outcome="refused", error=_refusal(what, why, ["run"]))
    run_script = partial(_run_script, services, root_of(case))
    result = _with_checks(result, check(case, result.trajectory, result.spent, workspace, run_script))
    if case.expect.rubric and setup.grade:
        graded, spent = setup.grade(case, result.trajectory, workspace)
        result = _with_checks(structs.replace(result, grading=spent), graded)
    return result


def _with_checks(result: EvalResult, more: Iterable[CheckResult]) -> EvalResult:
    """Return a result with more checks; where there are none, nothing decides."""
    checks = (*result.checks, *more)
    failed = any(not each.passed for each in checks)
    return structs.replace(
        result, checks=checks, outcome="failed" if failed else "passed" if checks else "ungraded"
    )


def _worked(
    case: EvalCase, result: EvalResult, agent: OwnAgent | OtherAgent, services: Services, stop: RunControl
) -> EvalResult:
    """Let the agent work, and return what is known when it has ended: `passed` until checks say otherwise."""
    workspace, is_choice = services.settings.workspace, case.kind == "trigger"
    before, began, control = digests_of(workspace), monotonic(), RunControl()
    failure = _within(case.seconds, stop, control, partial(agent.take_turns, case, control))
    seconds, ended = round(monotonic() - began, 3), agent.ended(case)
    files = {path: sha for path, sha in digests_of(workspace).items() if before.get(path) != sha}
    result = structs.replace(
        result,
        outcome="passed",
        trajectory=structs.replace(ended.trajectory, files=files),
        spent=structs.replace(ended.spent, seconds=seconds),
    )
    if control.drain_reason == _LATE:
        late = f"It was given up after {case.seconds:g} seconds."
        return structs.replace(result, outcome="timeout", error=late)
    if failure is not None:
        return structs.replace(result, outcome="error", error=_failure_text(failure))
    if not is_choice and ended.question is not None:
        error = _unanswered(ended.question, services)
        return structs.replace(result, outcome="refused", error=error)
    if not ended.is_whole:
        return structs.replace(result, outcome="error", error="It was cut off.")
    return result


@contextmanager
def _agent(
    case: EvalCase, result: EvalResult, place: Path, setup: Setup
) -> Iterator[tuple[OwnAgent | OtherAgent, Services]]:
    """Make the agent of one run; what it kept for this workspace elsewhere goes with it."""
    settings = _settings(case, result, place, setup)
    chat: ModelRunnable | None = setup.model_of(case, result.model, result.repeat)
    agent, name = split_label(result.model)
    if chat is None and name == SCRIPTED:
        if not case.replies:
            raise EvalError(f"The model scripted plays the `replies` of a case, and {case.id} has none.")
        chat = ScriptedChatModel(case.replies)
    services = Services(
        settings,
        model=chat,
        sources=setup.sources(),
        approvers=[_approver(setup)],
        yes=setup.yes,
        trust_file=trust_file_of(setup.settings),
        homes=place / "homes",
    )
    try:
        config = config_of(result.thread, {"eval": case.id})
        if make := setup.agents.get(agent):
            yield (
                make_other(
                    make,
                    case,
                    config,
                    approves=bool(setup.yes),
                    model=chat or resolved(settings, name),
                    skills=lay_skills(
                        services.library.shared,
                        place / "skills",
                        case.skill if result.arm == "without" else "",
                    ),
                    workspace=place / "work",
                    checkpointer=setup.saver,
                ),
                services,
            )
            return
        if chat is None:
            services.models.choose(Context())
        graph = wire(services).compile(checkpointer=setup.saver, name=OURS)
        yield OwnAgent(graph, config), services
    finally:
        # Beneath XDG_STATE_HOME, where that is set.
        remove_tree(state_folder(settings))


def _settings(case: EvalCase, result: EvalResult, place: Path, setup: Setup) -> Settings:
    """Return the operator's settings for one run, in a workspace and a home that end with it.

    What leads out of it is left out: servers of MCP, shared folders, secrets, and the network of scripts
    unless `--yes network` was said.
    """
    settings, (_, model) = setup.settings, split_label(result.model)
    left_out = {"mcp_servers", *(() if "network" in setup.yes else ("sandbox_network",))}
    hidden = [f"Skill({case.skill})"] if result.arm == "without" and case.skill else []
    return replace(
        settings,
        workspace=place / "work",
        home=place / "home",
        # What is in them is protected from scripts; the sources are given apart.
        skills_dirs=tuple(setup.folders),
        offered_dirs=(),
        script_folders={},
        script_secrets={},
        extras={name: each for name, each in settings.extras.items() if name not in left_out},
        audit="require" if settings.audit == "require" else "off",
        audit_folder=settings.workspace / RUNS / setup.run / "audit",
        approval="ask",
        exclude_tools=(*settings.exclude_tools, *hidden),
        model="" if model == SCRIPTED else model,
        allowed_models=(),  # No skill chooses another one: this one is measured.
        sandbox="require" if _is_sandboxed(settings) else settings.sandbox,
        origins={**settings.origins, "workspace": "code"},
    )


def _is_sandboxed(settings: Settings) -> bool:
    path = process_environment().get("PATH")
    return sandbox_here().isolation(settings.sandbox, path, settings.workspace).level in CONFINED


def _approver(setup: Setup) -> Approver:
    """Return what answers in a person's place: what a throw-away workspace and the sandbox hold.

    Programs may change nothing that is protected, not even there: file tools may, which are confined to it.
    """
    allowed = {*setup.yes, *(_ALLOWED if _is_sandboxed(setup.settings) else ())}

    def of_the_run(call: Call) -> Opinion | None:
        if call.risk not in allowed or (call.hosts and "network" not in setup.yes):
            return None
        is_file_tool = call.risk in {"write", "delete"} and call.spec.counts_as is None
        return Opinion("allow", "the workspace of an eval case is thrown away", protected=is_file_tool)

    return of_the_run


def _within(
    seconds: float, stop: RunControl, control: RunControl, work: Callable[[], None]
) -> Exception | None:
    """Do the work; drain its `control` after a time, or when `stop` is drained. Return why it failed.

    A model call cannot be ended, and is left when it is not over a while after that.
    """
    end = monotonic() + seconds

    def check() -> None:
        nonlocal end
        if not control.drain_requested and (stop.drain_requested or monotonic() >= end):
            control.request_drain("shutdown" if stop.drain_requested else _LATE)
            end = monotonic() + _GRACE_SECONDS
        elif monotonic() >= end:
            raise TimeoutError

    try:
        attended(work, None, check)
    except Exception as error:  # noqa: BLE001 - what became of the thread is looked at first
        return error
    return None


def _failure_text(failure: Exception) -> str:
    if isinstance(failure, SkillsAgentError):
        return str(failure)
    logger.warning("eval case failed", exc_info=failure)
    return f"{type(failure).__name__}: {failure}"


def _unanswered(question: object, services: Services) -> str:
    """Return what to say of a question that nobody answers."""
    requests = question.get("action_requests") if isinstance(question, dict) else None
    asked = requests or [{"name": "a question", "description": "a person has to answer"}]
    risks: dict[str, None] = {}
    for request in asked:
        call = services.policy.grammar.call(str(request.get("name", "")), request.get("args") or {})
        risks |= dict.fromkeys([call.risk, *(["network"] if call.hosts else [])])
    reason = one_line(visible_line(str(asked[0].get("description", ""))), 300).rstrip(".")
    unnamed = [risk for risk in risks if risk != "read"] if {*risks} - {"read", *services.policy.yes} else []
    return _refusal(str(asked[0].get("name")), reason, unnamed)


def _refusal(what: str, reason: str, risks: Sequence[str]) -> str:
    advice = f"To approve such calls of eval cases: --yes {','.join(risks)}" if risks else "No option does."
    return f"Nobody answers here, and {what} needs an approval: {reason}. {advice}"


def _run_script(services: Services, root: Path | None, command: Command, workspace: Path) -> tuple[bool, str]:
    """Run a case's own program: in the sandbox, as the script of an untrusted skill."""
    path, *args = command
    script = Path(path)
    if root is not None and not is_beneath(root, script):
        return False, f"{visible_line(script.name)} is not in the folder of the case: it was not run."
    request = ScriptRequest(
        skill="",
        script=script,
        args=tuple(args),
        stdin=None,
        workdir=workspace,
        timeout=_SCRIPT_SECONDS,
        source="eval",
        trusted=False,
    )
    try:
        result = services.runner.run(request)
    except SkillError as error:
        return False, str(error)
    said = "\n".join(filter(None, [result.stdout.strip(), result.stderr.strip()]))
    ended = f"stopped: {result.stopped}" if result.stopped else f"exit code {result.exit_code}"
    return result.exit_code == 0, f"{ended}. {said}".strip()
