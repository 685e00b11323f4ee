"""What the nodes work with, made once from the settings and from what a host brings."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime, get_runtime
from msgspec import UNSET, UnsetType

from skills_agent.graph.audit.events import Operator
from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.audit.redaction import redaction_of
from skills_agent.graph.kept_folders import KeptFolders
from skills_agent.graph.machine import machine_of
from skills_agent.graph.models.provider import default_model, make_models, model_name, stated_window
from skills_agent.graph.places import (
    closed_places,
    make_state_folder,
    process_environment,
    signer_files,
    trust_file_of,
    user_state_folder,
)
from skills_agent.graph.serialisation import keyed, stored_size
from skills_agent.graph.settings import (
    Settings,
    SettingsError,
    content_limits,
    description_budget,
    make_registry,
    refuse_missing_workspace,
)
from skills_agent.graph.start_up import protected_entries
from skills_agent.graph.system_prompt import SystemPrompt, system_prompt_of
from skills_agent.graph.threads.backends import ThreadServices
from skills_agent.graph.threads.locks import ThreadLocks
from skills_agent.graph.tools import CommandLimits, Kept, Workdir, build_tools
from skills_agent.graph.tools.brought import HostTool, brought
from skills_agent.graph.tools.change import Changes, changes_in
from skills_agent.graph.tools.offered import OfferedTools
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.mcp.client import make_servers
from skills_agent.mcp.offer import offer_tools
from skills_agent.nodes import RegistryOf
from skills_agent.nodes.act import keep_reply
from skills_agent.nodes.answer_form import AnswerForm
from skills_agent.nodes.effects import Journal
from skills_agent.nodes.model_call import ModelRequests, Models
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.results import ResultLimits, shown
from skills_agent.nodes.timeouts import TimedCalls
from skills_agent.nodes.wrapped_models import ModelRunnable
from skills_agent.packages.propose import ProposeSkill
from skills_agent.packages.signed import Signers
from skills_agent.sandbox.shared_by_settings import shared_folders
from skills_agent.skills.library.registry import Library, Registry
from skills_agent.skills.policy.patterns import Entry, EntryNotUnderstoodError, Grammar, Places
from skills_agent.skills.policy.risk import RISKS, Risk
from skills_agent.skills.policy.tool_spec import PROPOSE_SKILL, SHELL_TOOLS
from skills_agent.skills.policy.trust import TrustList
from skills_agent.skills.policy.verdict import AnswerRefusedError, Approver
from skills_agent.skills.posix import MISSING
from skills_agent.skills.scripts.choice import Offer, choose_runner, why_no_shell
from skills_agent.skills.scripts.environment import ScriptLimits, make_undumpable
from skills_agent.skills.scripts.runner import ScriptRunner
from skills_agent.skills.search.vectors import Embedder
from skills_agent.skills.sources import Source
from skills_agent.skills.text import cut
from skills_agent.state.context import Context, caller_of
from skills_agent.state.transcript import LOAD_SKILL

logger = logging.getLogger(__name__)

_MOST_OFFERED: Final = 200
"""Skills whose names are recorded with each turn."""
_LONGEST_FAILURE: Final = 10_000
"""Characters of what a tool raised."""


@dataclass(frozen=True)
class Services:
    """What the nodes work with."""

    library: Library
    registry: RegistryOf
    requests: ModelRequests
    tool_node: ToolNode
    coroutines: Collection[str]
    """Tools that are awaited: the others block, and are called in a thread."""
    results: ResultLimits
    policy: Policy
    settings: Settings
    audit: Audit
    threads: ThreadServices


def make_services(  # noqa: PLR0913 - those of `build_graph`, and what the command line adds
    settings: Settings,
    *,
    model: str | ModelRunnable | None = None,
    tools: Sequence[HostTool] | None = (),
    system_prompt: SystemPrompt | None = None,
    form: AnswerForm | None = None,
    runner: ScriptRunner | None = None,
    sources: Sequence[Source] | None = None,
    embeddings: Embedder | None = None,
    approvers: Sequence[Approver] = (),
    journal: Journal | None = None,
    locks: ThreadLocks | None = None,
    allowed_types: Collection[type] = (),
    yes: Collection[Risk] = (),
    homes: Path | None = None,
) -> Services:
    """Make the services. Nothing is read, started or contacted yet.

    `yes` are the risks that a person approved in advance; `homes` is where scripts keep things (None: in the
    user's state folder). Raises SettingsError.
    """
    if MISSING:
        raise SettingsError(
            f"The agent works on Linux and macOS, and on Windows in WSL: this Python has no module {MISSING}."
        )
    if not isinstance(settings, Settings):
        hint = f"a model is named by `model={settings!r}`" if isinstance(settings, str) else "`Settings(...)`"
        raise SettingsError(f"`build_graph` takes Settings first, not a {type(settings).__name__}: {hint}.")
    refuse_missing_workspace(settings)
    if isinstance(model, str):
        settings, model = replace(settings, model=model), None
    if settings.approval != "ask" and settings.on_change == "ask":
        settings = replace(settings, on_change="pin")  # It keeps what its threads have loaded.
    servers = make_servers(settings)
    library = Library(make_registry(settings, sources, embeddings, servers))

    def registry(runtime: Runtime[Context] | ToolRuntime[Any, Any], *, look: bool = False) -> Registry:
        return library.of(caller_of(runtime), runtime.store, look=look)

    protected, closed = protected_entries(settings, library.shared.sources), closed_places(settings)
    # What a host's runner runs scripts on is not known here.
    machine = machine_of(settings, servers.faults) if runner is None else None
    runner, files = runner or make_runner(settings, protected, closed), Workspace(settings.workspace, closed)
    audit = make_audit(settings, model, yes, partial(_offered, library.shared))
    threads = ThreadServices(
        settings,
        audit,
        library.shared.watch,
        servers.connect if settings.mcp_servers else None,
        journal,
        locks,
        keyed(allowed_types),
    )
    workdir = Workdir(
        settings.workspace, per_thread=settings.workdir == "thread", protected=settings.protected_paths
    )
    trust = TrustList(trust_file_of(settings), content_limits(settings))
    signers = Signers(
        signer_files(settings), user_state_folder(settings), process_environment().get("PATH", "")
    )
    changes: Changes = changes_in(files)
    models = make_models(settings, model, in_a_form=form is not None)
    proposing = _proposing(settings, library, trust, signers, threads, models, model)
    if proposing is not None:
        changes = proposing.in_place_of_writing(changes)
    own = build_tools(
        library,
        runner,
        workdir,
        files,
        threads.thread_codes,
        # The policy is made of the tools, so it is looked up when one is called.
        kept=Kept(KeptFolders(settings, homes), lambda *skill: policy.trusts(*skill)),  # noqa: PLW0108
        cancellation=threads.invocations.cancellation,
        left_out=lambda *request: policy.skills_left_out(*request),  # noqa: PLW0108
        machine=machine,
        commands=threads.background,
        watcher=audit,
        limits=CommandLimits(
            settings.script_timeout, settings.background_timeout, settings.max_script_output
        ),
        images=settings.read_images,
        asks=settings.approval == "ask",
        environment=process_environment(),
        proposing=proposing.tool() if proposing else None,
    )
    places = Places(str(settings.workspace), closed=tuple(map(str, closed)))
    of_host = brought(tools)
    offered = OfferedTools(own, of_host.own, settings.tool_timeout, places, of_host.provider)
    if form and (taken := form.tools.keys() & {*offered, *of_host.provider, LOAD_SKILL}):
        raise SettingsError(f"A tool is named {min(taken)}, as the form of `response_format`: rename one.")
    offer_tools(servers, offered, settings, threads.invocations.cancellation)
    budget = description_budget(settings, stated_window(model))
    policy = Policy(
        tools=offered,
        provider_tools=offered.provider,
        grammar=offered.grammar,
        ask_for=_risks(settings.require_approval_for),
        ask_about=_asked(settings.require_approval_for, offered.grammar),
        ask_for_untrusted=_risks(settings.waived_risks),
        ask_about_untrusted=_asked(settings.waived_risks, offered.grammar),
        registry=registry,
        trust=trust,
        signers=signers,
        mode=settings.allowed_tools,
        always_allowed=settings.always_allowed_tools,
        excluded=_excluded(settings, offered.grammar),
        approvers=approvers,
        approval=settings.approval,
        yes=yes,
        protected=protected,
        protected_arguments=settings.protected_paths,
        runner=runner,
        workspace=settings.workspace,
        changes=changes,
        measures={PROPOSE_SKILL: proposing.measured} if proposing else {},
        workdir=workdir.of_caller,
        absent=partial(_absent, settings.enable_run_command, runner),
        codes=threads.thread_codes,
        running=threads.invocations.current,
        machine=machine,
        unreached=servers.absence_of,
    )
    return Services(
        library=library,
        registry=registry,
        requests=ModelRequests(
            models,
            registry,
            offered,
            budget,
            policy.skills_left_out,
            audit,
            offered.provider,
            system_prompt_of(settings, system_prompt),
            form,
        ),
        tool_node=_tool_node(offered, TimedCalls(offered.limits, threads.invocations, audit.still_runs)),
        coroutines=offered.coroutines,
        results=ResultLimits(
            text=settings.max_tool_output,
            tools=offered.kept,
            stored_size=partial(stored_size, allowed=threads.allowed_types),
        ),
        policy=policy,
        settings=settings,
        audit=audit,
        threads=threads,
    )


def _proposing(
    settings: Settings,
    library: Library,
    trust: TrustList,
    signers: Signers,
    threads: ThreadServices,
    models: Models,
    model: ModelRunnable | None,
) -> ProposeSkill | None:
    is_on = settings.enable_propose_skill and settings.enable_skills
    # Nobody has signed what the agent writes.
    if not is_on or settings.approval != "ask" or settings.require_signature:
        return None

    def evaluate(folder: Path, base: Path | None, context: Context) -> str:
        from skills_agent.evals.proposals import Draft, ProposalEvals  # noqa: PLC0415 - it imports this

        chosen, cancellation = models.choose(context), threads.invocations.cancellation()
        runtime = get_runtime()
        control = runtime.control if runtime else None
        return ProposalEvals(settings, settings.proposal_eval_seconds or 0).measure(
            Draft(folder, base),
            chosen.name,
            chosen.chat,
            lambda: cancellation.is_requested or bool(control and control.drain_requested),
        )

    proposing = ProposeSkill(
        settings,
        library,
        trust,
        signers,
        threads.thread_codes,
        usual_model(settings, model),
        evaluate if settings.proposal_eval_seconds else None,
    )
    return proposing if proposing.sources else None


def _absent(offer: Offer, runner: ScriptRunner) -> Mapping[str, str]:
    reason = why_no_shell(offer, runner)
    return dict.fromkeys(SHELL_TOOLS, f"no shell here: {reason}") if reason else {}


def _risks(words: Collection[str]) -> frozenset[Risk]:
    return frozenset(risk for risk in RISKS if risk in words)


def _asked(words: Collection[str], grammar: Grammar) -> tuple[Entry, ...]:
    try:
        return tuple(grammar.parse_asked(text) for text in sorted({*words} - {*RISKS}))
    except EntryNotUnderstoodError as error:
        raise SettingsError(f"Setting require_approval_for: {error}") from error


def _excluded(settings: Settings, grammar: Grammar) -> tuple[Entry, ...]:
    try:
        return tuple(grammar.parse_named(text) for text in settings.exclude_tools)
    except EntryNotUnderstoodError as error:
        raise SettingsError(f"Setting exclude_tools: {error}") from error


def make_runner(
    settings: Settings, protected: tuple[str, ...] = (), closed: tuple[Path, ...] = ()
) -> ScriptRunner:
    """Return what runs scripts, and shut the agent's own memory from them."""
    if settings.protect_process:
        make_undumpable()
    return choose_runner(
        settings.sandbox,
        workspace=settings.workspace,
        network=settings.network_skills,
        closed=closed,
        protected=protected,
        records=partial(make_state_folder, settings),
        timeout=settings.script_timeout,
        max_output=settings.max_script_output,
        max_written=settings.max_written_files,
        environment=process_environment(),
        secrets=settings.script_secrets,
        shared=shared_folders(settings),
        limits=ScriptLimits(
            memory=settings.script_memory,
            file_size=settings.script_file_size,
            written_bytes=settings.script_written_bytes,
            written_files=settings.script_written_files,
            kept_bytes=settings.script_kept_bytes,
            open_files=settings.script_open_files,
            processes=settings.script_processes,
            cpu_seconds=settings.script_cpu_seconds,
        ),
    )


def usual_model(settings: Settings, model: ModelRunnable | None) -> str:
    """Return the name of the model that is asked where a caller chooses none."""
    return model_name(model) if model is not None else settings.model or default_model(process_environment())


def _offered(registry: Registry, digest: str) -> list[str] | UnsetType:
    catalog = registry.get(digest)
    if catalog is None or len(catalog.skills) > _MOST_OFFERED:
        return UNSET
    return [skill.name for skill in catalog.skills if skill.model_invocable]


def make_audit(
    settings: Settings,
    model: ModelRunnable | None,
    yes: Collection[Risk],
    offered: Callable[[str], list[str] | UnsetType] = lambda _: UNSET,
) -> Audit:
    """Return what keeps the record of the runs; `offered` names the skills of a catalog."""
    return Audit(
        RunLog(settings.audit_folder, settings.workspace) if settings.audit != "off" else None,
        redaction_of(settings),
        Operator(
            model=usual_model(settings, model),
            allowed_tools=settings.allowed_tools,
            approval=settings.approval,
            yes=sorted(yes),
            sandbox=settings.sandbox,
        ),
        required=settings.audit == "require",
        offered=offered,
    )


def _tool_node(tools: OfferedTools, timed: TimedCalls) -> ToolNode:
    """Return what runs calls. It takes a tool that joins later from the request: it knows the first alone."""

    def of_now(request: ToolCallRequest) -> ToolCallRequest:
        tool = tools.get(request.tool_call["name"])
        return request if request.tool or tool is None else request.override(tool=tool)

    def call(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        return timed.call(of_now(request), execute)

    async def await_call(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return await keep_reply(of_now(request), lambda given: timed.await_call(given, execute))

    return ToolNode(
        list(tools.values()),
        handle_tool_errors=_failure_text,
        wrap_tool_call=call,
        awrap_tool_call=await_call,
    )


def _failure_text(error: Exception) -> str:
    if isinstance(error, AnswerRefusedError):  # of a tool that asks: its question stays open
        raise error
    text = shown(error)
    logger.warning("tool failed", exc_info=error if len(text) <= _LONGEST_FAILURE else None)
    return f"The tool failed: {type(error).__name__}: {cut(text, _LONGEST_FAILURE)}"
