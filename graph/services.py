"""What the nodes work with, by the settings and by what a host brings: each part is made when needed."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack, overload

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from typing_extensions import override

from skills_agent.graph.audit.log import RunLog
from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.audit.redaction import redaction_of
from skills_agent.graph.hooks import HOOKS, first, hook, hooks_of_tasks
from skills_agent.graph.kept_folders import KeptFolders
from skills_agent.graph.langgraph_inside import is_coroutine, skip_answers, state_now
from skills_agent.graph.machine import machine_of, make_runner, shell_of
from skills_agent.graph.models.available import default_model
from skills_agent.graph.models.provider import make_models, model_name
from skills_agent.graph.serialisation import keyed, stored_size
from skills_agent.graph.settings import Settings, SettingsError, make_registry, refuse_missing_workspace
from skills_agent.graph.start_up import protected_entries
from skills_agent.graph.system_prompt import SystemPrompt, system_prompt_of
from skills_agent.graph.threads.backends import ThreadServices
from skills_agent.graph.threads.left_running import Keeper
from skills_agent.graph.threads.locks import ThreadLocks
from skills_agent.graph.tool_servers import ToolServers, make_servers
from skills_agent.graph.tools import build_tools
from skills_agent.graph.tools.change import Changes, changes_in
from skills_agent.graph.tools.equipment import workdir_of_caller
from skills_agent.graph.tools.host_tools import HostTool, HostTools, brought
from skills_agent.graph.tools.node import tool_node
from skills_agent.graph.tools.of_extras import ExtraTools
from skills_agent.graph.tools.task import task_tools
from skills_agent.graph.tools.tool_table import ToolTable
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.graph.user_folders import closed_places, process_environment, trust_file_of
from skills_agent.graph.vouchers import signer, vouchers_of
from skills_agent.nodes.answer_form import AnswerForm
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.effects import Journal
from skills_agent.nodes.links.attempt import Acting
from skills_agent.nodes.model_call import ModelRequests
from skills_agent.nodes.policy import AskedCalls, Policy
from skills_agent.nodes.wrapped_models import ModelRunnable, Models
from skills_agent.skills.library.callers import Library
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.machine import Machine
from skills_agent.skills.policy.command_lines import NO_LINES, CommandLines
from skills_agent.skills.policy.patterns import Entry, EntryNotUnderstoodError, Grammar, Places
from skills_agent.skills.policy.trust import TrustList
from skills_agent.skills.policy.verdict import Approver
from skills_agent.skills.posix import MISSING
from skills_agent.skills.risk import RISKS, Risk
from skills_agent.skills.scripts.environment import make_undumpable
from skills_agent.skills.scripts.runner import ScriptRunner
from skills_agent.skills.search.vectors import Embedder
from skills_agent.skills.sources import Source
from skills_agent.state.context import Context, caller_of
from skills_agent.state.forks import Subagent
from skills_agent.state.transcript import LOAD_SKILL

Made = TypeVar("Made")

_LOCK: Final = RLock()
"""One for all: services ask each other, and nodes run in several threads."""


class once(cached_property[Made]):  # noqa: N801 - used like `property`
    """A method that is called once for its object, whichever thread asks first; then its value is there.

    `cached_property` alone calls it once for each thread that asks before the value is there.
    """

    @overload
    def __get__(self, instance: None, owner: type[object] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[object] | None = None) -> Made: ...
    @override
    def __get__(self, instance: object, owner: type[object] | None = None) -> Self | Made:
        with _LOCK:
            return super().__get__(instance, owner)


class HostParts(TypedDict, total=False):
    """What a host may bring, each by its name: `build_graph` says what each is."""

    model: str | ModelRunnable | None
    tools: Sequence[HostTool] | None
    skill_tools: Sequence[HostTool] | None
    system_prompt: SystemPrompt | None
    runner: ScriptRunner | None
    subagents: Sequence[Subagent]
    sources: Sequence[Source] | None
    embeddings: Embedder | None
    approvers: Sequence[Approver]
    journal: Journal | None
    locks: ThreadLocks | None
    allowed_types: Collection[type]


class Services:
    """What the nodes and the tools work with."""

    runs_scripts = True
    """Whether scripts may run on this machine: then no other process of this user may read this one."""

    def __init__(
        self,
        settings: Settings,
        *,
        form: AnswerForm | None = None,
        yes: Collection[Risk] = (),
        trust_file: Path | None = None,
        homes: Path | None = None,
        **parts: Unpack[HostParts],
    ) -> None:
        """Check the settings. Nothing is read, started or contacted yet. Raises SettingsError.

        `yes`: risks approved in advance. `trust_file` and the `homes` of scripts are the user's if left out.
        """
        if unknown := sorted(parts.keys() - HostParts.__annotations__.keys()):
            raise TypeError(f"`build_graph` got an unexpected keyword argument {unknown[0]!r}")
        model = parts.get("model")
        self.settings = settings = _checked(settings, model)
        self.parts, self.form, self.yes = parts, form, yes
        self.trust = TrustList(trust_file or trust_file_of(settings))
        self._homes = homes
        self.model = None if isinstance(model, str) else model
        self.closed = closed_places(settings)
        self.system_prompt = system_prompt_of(settings, parts.get("system_prompt"))
        if self.runs_scripts and parts.get("runner") is None:
            make_undumpable()
        self.why_no_shell = shell_of(settings, parts.get("runner"))
        self.left_running = list[Keeper]()
        """What tools leave running when they return."""
        asked = {*settings.require_approval_for, *settings.waived_risks, *settings.exclude_tools} - {*RISKS}
        # These may find a fault in the settings, or in what the host brings: it is told at once.
        faulty = {
            "models": self.model is not None,
            "runner": bool(settings.script_folders),
            "servers": bool(settings.mcp_servers),
            "library": parts.get("sources") is not None,
            "offered": bool({"tools", "skill_tools", "subagents"} & parts.keys()) or form is not None,
            "policy": bool(asked or settings.extras.get(HOOKS)),
        }
        for name in (name for name, may_be in faulty.items() if may_be):
            getattr(self, name)

    @once
    def library(self) -> Library:
        """The skills."""
        servers = self.servers if self.settings.mcp_servers else None
        sources, embeddings = self.parts.get("sources"), self.parts.get("embeddings")
        return Library(make_registry(self.settings, sources, embeddings, servers), first("own_skills"))

    def registry(self, runtime: Runtime[Context] | ToolRuntime[Any, Any]) -> Registry:
        """Return the registry of the caller: without a store, everybody has the same."""
        if runtime.store is None:
            return self.library.shared
        return self.library.of(caller_of(runtime), runtime.store)

    @once
    def models(self) -> Models:
        """Where models come from."""
        return make_models(self.settings, self.model, in_a_form=self.form is not None)

    @once
    def requests(self) -> ModelRequests:
        """What asks models."""
        return ModelRequests(
            models=self.models,
            registry=self.registry,
            tools=self.offered,
            catalog_budget=self.settings.catalog_budget,
            left_out=self.left_out,
            observer=self.audit,
            provider_tools=self.offered.provider,
            scoped=self.offered.scoped,
            system_prompt=self.system_prompt,
            form=self.form,
        )

    @once
    def audit(self) -> Audit:
        """What keeps the record of the runs."""
        settings = self.settings
        return Audit(
            RunLog(settings.audit_folder, settings.workspace) if settings.audit != "off" else None,
            redaction_of(settings),
            {
                "model": usual_model(settings, self.model),
                "allowed_tools": settings.allowed_tools,
                "approval": settings.approval,
                "yes": sorted(self.yes),
                "sandbox": settings.sandbox,
            },
            required=settings.audit == "require",
        )

    @once
    def threads(self) -> ThreadServices:
        """What the compiled graph runs its threads with."""
        return ThreadServices(
            self.settings,
            self.audit,
            self.left_running,
            self._connect if self.settings.mcp_servers else None,
            self.parts.get("journal"),
            self.parts.get("locks"),
            keyed(self.parts.get("allowed_types", ())),
        )

    def cancellation(self) -> Cancellation:
        """Return the cancellation of the invocation that the calling node, or tool, runs for."""
        return self.threads.invocations.cancellation()

    @once
    def lines(self) -> CommandLines:
        """What reads command lines."""
        lines: CommandLines = first("lines", NO_LINES)
        return lines

    @once
    def offered(self) -> ToolTable:
        """The tools that models are offered."""
        settings = self.settings
        given = self.parts.get("tools"), self.parts.get("skill_tools")
        of_host = HostTools() if given == (None, None) else brought(*given)
        places = Places(str(settings.workspace), closed=tuple(map(str, self.closed)))
        offered = ToolTable(_own_tools(self, of_host), of_host, settings.tool_timeout, places, self.lines)
        for each in self.parts.get("subagents", ()):
            _entries(f"tools of the subagent {each.name}", offered.grammar.parse_named, each.tools or ())
        if self.form and (taken := self.form.tools.keys() & {*offered, *offered.provider, LOAD_SKILL}):
            raise SettingsError(f"A tool is named {min(taken)} as the form of `response_format`: rename one.")
        if settings.mcp_servers and self.servers:
            self.servers.offer_tools(offered, settings, self.cancellation)
        return offered

    @once
    def acting(self) -> Acting:
        """What the links of a tool call work with."""
        return Acting(
            tools=tool_node(self.offered, self.threads.invocations),
            is_coroutine=is_coroutine,
            policy=self.policy,
            limits=self.settings,
            running=self.threads.invocations,
            host_tools=self.offered.limits,
            stored_size=partial(stored_size, allowed=self.threads.allowed_types),
            observer=self.audit,
            state_now=state_now,
            skip_answers=skip_answers,
        )

    @once
    def policy(self) -> Policy:
        """What the operator allows."""
        settings, grammar = self.settings, self.offered.grammar
        return Policy(
            tools=self.offered,
            provider_tools=self.offered.provider,
            scoped=self.offered.of_skills,
            grammar=grammar,
            asked=_asked(settings.require_approval_for, grammar),
            asked_if_untrusted=_asked(settings.waived_risks, grammar),
            registry=self.registry,
            means=self,
            skill_sets=settings.skill_sets,
            dynamic_context=settings.dynamic_context == "on",
            mode=settings.allowed_tools,
            always_allowed=settings.always_allowed_tools,
            excluded=_entries("exclude_tools", grammar.parse_named, settings.exclude_tools),
            approvers=self.parts.get("approvers", ()),
            approval=settings.approval,
            yes=self.yes,
            protected_arguments=settings.protected_paths,
            workspace=settings.workspace,
            workdir=partial(workdir_of_caller, settings),
            running=self.threads.invocations.current,
            make_hooks=hooks_of_tasks(self, is_hooked := bool(settings.extras.get(HOOKS))),
            is_hooked=is_hooked,
        )

    def left_out(self, catalog: Catalog, context: Context) -> frozenset[str]:
        """Return the names of the skills that a request may not load."""
        return self.policy.skills_left_out(catalog, context)

    @once
    def runner(self) -> ScriptRunner:
        """What runs programs."""
        return self.parts.get("runner") or make_runner(self.settings, self.protected, self.closed)

    @once
    def machine(self) -> Machine:
        """What needs of skills are held against."""
        faults = self.servers.faults if self.settings.mcp_servers and self.servers else dict
        return machine_of(self.settings, faults, is_elsewhere=self.parts.get("runner") is not None)

    @once
    def protected(self) -> tuple[str, ...]:
        """What is protected beside `PROTECTED`."""
        return protected_entries(self.settings, self.library.shared.sources, self.closed)

    @once
    def files(self) -> Workspace:
        """The files of the workspace."""
        return Workspace(self.settings.workspace, self.closed)

    @once
    def kept(self) -> KeptFolders:
        """What is kept for scripts."""
        return KeptFolders(self.settings, self._homes)

    @once
    def changes(self) -> Changes:
        """By tool, what says what a call would change in a file."""
        changes = changes_in(self.files)
        for extra in self.of_extras:
            changes = extra.changes(changes)
        return changes

    @property
    def measures(self) -> Mapping[str, Callable[[Mapping[str, Any], Context], str]]:
        """By tool, what measures what a call would bring."""
        return {tool: measure for extra in self.of_extras for tool, measure in extra.measures.items()}

    @once
    def of_extras(self) -> Sequence[ExtraTools]:
        """The tools of installed extras."""
        return [made for make in hook("tools") if (made := make(self))]

    def vouch_for(self, folder: Path, name: str, digest: str) -> str:
        """Return who signed this version of a skill, and may do so today; empty for nobody."""
        return signer(vouchers_of(self.settings), folder, name, digest)

    @once
    def servers(self) -> ToolServers | None:
        """The servers that the settings name, also asked about others; None where no extra connects any."""
        return make_servers(self.settings)

    def _connect(self) -> None:
        """Connect the servers. Their tools join those that are offered, so these are made first."""
        _ = self.offered
        if self.servers is not None:
            self.servers.connect()

    def unreached(self, tool: str) -> str:
        """Say why the tool of an MCP server is not there, by its name; empty where that is unknown."""
        return self.servers.absence_of(tool) if self.servers else ""


def _own_tools(it: Services, of_host: HostTools) -> list[BaseTool]:
    agents = it.parts.get("subagents")
    own = build_tools(it, for_skills=bool(of_host.of_skills))
    return [*own, *(task_tools(agents, it.settings, has_own_model=it.model is not None) if agents else [])]


def _checked(settings: Settings, model: object) -> Settings:
    """Return the settings with what the host says in their place. Raises SettingsError."""
    if MISSING:
        raise SettingsError(
            f"The agent works on Linux and macOS, and on Windows in WSL: this Python has no module {MISSING}."
        )
    if not isinstance(settings, Settings):
        hint = f"a model is named by `model={settings!r}`" if isinstance(settings, str) else "`Settings(...)`"
        raise SettingsError(f"`build_graph` takes Settings first, not a {type(settings).__name__}: {hint}.")
    refuse_missing_workspace(settings)
    if isinstance(model, str):
        settings = replace(settings, model=model)
    if settings.approval != "ask" and settings.on_change == "ask":
        settings = replace(settings, on_change="pin")  # It keeps what its threads have loaded.
    return settings


def _asked(words: Collection[str], grammar: Grammar) -> AskedCalls:
    calls = sorted({*words} - {*RISKS})
    entries = _entries("require_approval_for", grammar.parse_asked, calls)
    return AskedCalls([risk for risk in RISKS if risk in words], entries)


def _entries(setting: str, parse: Callable[[str], Entry], texts: Iterable[str]) -> tuple[Entry, ...]:
    try:
        return tuple(map(parse, texts))
    except EntryNotUnderstoodError as error:
        raise SettingsError(f"Setting {setting}: {error}") from error


def usual_model(settings: Settings, model: ModelRunnable | None) -> str:
    """Return the name of the model that is asked where a caller chooses none."""
    return model_name(model) if model is not None else settings.model or default_model(process_environment())
