"""What the operator allows, and what a call is held against: its schema, the caller's word, the machine."""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from langchain_core.tools import BaseTool
from langgraph.runtime import get_runtime
from pydantic import BaseModel, ValidationError

from skills_agent.nodes import HooksOf, RegistryOf, SkillHooks
from skills_agent.nodes.effects import Invocation
from skills_agent.nodes.wrapped_models import Models
from skills_agent.skills.errors import SkillError
from skills_agent.skills.library.admission import is_in_set
from skills_agent.skills.library.catalog import Catalog, in_place_text
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.machine import Machine, Missing
from skills_agent.skills.policy.approval_text import FileChange
from skills_agent.skills.policy.patterns import Call, Entry, EntryNotUnderstoodError, Grammar, any_permits
from skills_agent.skills.policy.permission import ALWAYS_ALLOWED, Declared, Mode, Permission
from skills_agent.skills.policy.tool_spec import CALL_TOOL, RUN_COMMAND, SHELL_TOOLS
from skills_agent.skills.policy.trust import TrustFileError, TrustList
from skills_agent.skills.policy.verdict import Approver, Verdict
from skills_agent.skills.risk import Approval, Risk
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.scripts.runner import HeldRun, ScriptRunner
from skills_agent.skills.skill import SkillMetadata, SkillRef
from skills_agent.state.context import Context, ContextError
from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState
from skills_agent.state.transcript import LOAD_SKILL, SEARCH_SKILLS

logger = logging.getLogger(__name__)


class AskedCalls(NamedTuple):
    """Which calls a person is asked about."""

    risks: Collection[Risk] = ()
    entries: tuple[Entry, ...] = ()
    """Calls that are asked about whatever they risk; one that is unclear counts."""

    def meets(self, call: Call) -> bool:
        """Return whether a call is one of them."""
        return call.risk in self.risks or any(entry.may_mean(call) for entry in self.entries)


class Means(Protocol):
    """What calls and skills are held against beside the operator's word: each is made when it is needed."""

    @property
    def trust(self) -> TrustList:
        """What the person vouches for."""

    def vouch_for(self, folder: Path, name: str, digest: str) -> str:
        """Return who signed this version of a skill, and may do so today; empty for nobody.

        Raises SkillError or OSError where a signature is there and cannot be checked.
        """

    @property
    def runner(self) -> ScriptRunner:
        """Knows how isolated a script would run, and why one cannot."""

    @property
    def protected(self) -> tuple[str, ...]:
        """What is asked about every time, beside `PROTECTED`."""

    @property
    def changes(self) -> Mapping[str, Callable[[Mapping[str, Any]], FileChange | None]]:
        """By tool, what says what a call with these arguments would change in a file of the workspace."""

    @property
    def measures(self) -> Mapping[str, Callable[[Mapping[str, Any], Context], str]]:
        """By tool, what measures, before a question, what a call with these arguments would bring."""

    @property
    def machine(self) -> Machine:
        """What needs of skills are held against."""

    @property
    def models(self) -> Models:
        """Where models come from."""

    def why_no_shell(self) -> str:
        """Return why this machine cannot offer the tools of a shell; empty where it can."""

    def unreached(self, tool: str) -> str:
        """Say why the tool of an MCP server is not there, by its name; empty where that is unknown."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator allows: which tools there are, and what is asked about."""

    tools: Mapping[str, BaseTool]
    grammar: Grammar
    """Knows the spec of every tool."""
    asked: AskedCalls
    asked_if_untrusted: AskedCalls
    """Which calls are asked about, too, where an untrusted skill was loaded."""
    registry: RegistryOf
    means: Means
    workspace: Path
    workdir: Callable[[], Path]
    """Returns the folder that commands work in, for the thread that the calling node runs for."""
    running: Callable[[], Invocation | None]
    """Returns the invocation that the calling node is part of."""
    provider_tools: Collection[str] = ()
    """Names of tools that the model's provider runs: all that can be done is not to offer them."""
    scoped: Collection[str] = ()
    """Names of tools that are offered only while a skill is loaded that names them."""
    skill_sets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By name, what a caller may choose: entries of skills, and behind `!` of those that are not in it."""
    dynamic_context: bool = False
    """Whether commands in the text of a skill are called when it is activated."""
    mode: Mode = "recommend"
    always_allowed: Collection[str] = ALWAYS_ALLOWED
    excluded: tuple[Entry, ...] = ()
    """What nobody may call."""
    approvers: Sequence[Approver] = ()
    """Rules of the host, in any order: the strictest opinion counts."""
    approval: Approval = "ask"
    make_hooks: HooksOf = lambda _state, _about: None
    is_hooked: bool = False
    """Whether the operator has hooks."""
    yes: Collection[Risk] = ()
    """Risks that a person approved in advance."""
    protected_arguments: tuple[str, ...] = ()
    """Of what is protected, what programs may not name unasked. The rest (folders of skills, the agent
    itself) a sandbox shows read-only in any case, and reading from it is usual.
    """

    def hooks(self, state: AgentState, about: str) -> SkillHooks | None:
        """Return the hooks of the calling task, by what it is about; None where nobody has any."""
        context = get_runtime(Context).context
        callers = context.scope.callers if isinstance(context, Context) else ()
        for ledger in (state.get("skills_loaded"), *callers):
            if self.is_hooked or any(each.get("hooks") for each in active_skills(ledger).values()):
                return self.make_hooks(state, about)
        return None

    def held(self, key: str) -> HeldRun | None:
        """Return the run of a call, by its key, of whose changes a person decides, or has decided."""
        return runner.held(key) if isinstance(runner := self.means.runner, OwnRunner) else None

    def permission(self, state: AgentState) -> Permission:
        """Return what the loaded skills permit now."""
        declared = [
            Declared(name, skill["allowed_tools"], skill.get("disallowed_tools") or ())
            for name, skill in active_skills(state.get("skills_loaded")).items()
        ]
        return Permission(declared, self.mode, self.always_allowed, self.grammar)

    def trusts(self, ref: SkillRef, registry: Registry) -> bool:
        """Return whether the operator or a person vouches for this version of a skill."""
        return self._is_known(ref, registry) or bool(self.signer_of(ref))

    def trusted_signer(self, ref: SkillRef, registry: Registry) -> str:
        """Return whose signature alone makes this version of a skill trusted; empty where none does."""
        return "" if self._is_known(ref, registry) else self.signer_of(ref)

    def signer_of(self, ref: SkillRef) -> str:
        """Return who signed this version of a skill, and may do so today; empty for nobody."""
        try:
            return self.means.vouch_for(Path(ref.path).parent, ref.name, ref.digest)
        except (SkillError, OSError) as error:
            logger.warning("signature cannot be checked", extra={"skill": ref.name, "cause": str(error)})
            return ""

    def _is_known(self, ref: SkillRef, registry: Registry) -> bool:
        """Return whether this version of a skill itself is vouched for, and not only who signed it."""
        if registry.is_vouched_for(ref):
            return True
        try:
            return self.means.trust.vouches_for(Path(ref.path).parent, ref.digest)
        except TrustFileError as error:
            logger.warning("trust file unusable", extra={"cause": error.cause})
            return False

    def in_place_of(self, ref: SkillRef, registry: Registry) -> str:
        """Say which skills an untrusted one hides, and how to ask for them; empty where it hides none."""
        hidden = registry.hidden_by(ref)
        # A project may bring another skill of the same signer, or an older version.
        is_said = hidden and not self._is_known(ref, registry)
        return in_place_text(ref.name, ref.source, hidden) if is_said else ""

    def missing(self, ref: SkillRef, registry: Registry) -> list[Missing]:
        """Return what a version of a skill needs, and this machine lacks. Raises as `Registry.needs` does."""
        return self.means.machine.missing(registry.needs(ref), ref, trusted=registry.is_vouched_for(ref))

    def hidden(self, context: Context) -> set[str]:
        """Return the tools that a model is not offered, because no call of this request could use them."""
        absent = SHELL_TOOLS if self.means.why_no_shell() else ()
        names = (*self.tools, *self.provider_tools)
        return {
            name for name in names if name in absent or name in self.scoped or self.is_left_out(name, context)
        }

    def is_left_out(self, tool: str, context: Context) -> bool:
        """Return whether a tool as a whole is out of this request's reach. Raises ContextError."""
        if tool == SEARCH_SKILLS and self.is_left_out(LOAD_SKILL, context):
            return True  # What is found could not be loaded.
        if tool in SHELL_TOOLS - {RUN_COMMAND} and self.is_left_out(RUN_COMMAND, context):
            return True  # Nothing could be started.
        if tool in self.scoped and self.is_left_out(CALL_TOOL, context):
            return True  # It is called by that one.
        excluded, only = self._narrowed(context)
        if any(entry.is_whole and entry.names(tool) for entry in (*self.excluded, *excluded)):
            return True
        return not (
            only is None or self.grammar.spec(tool).framework or any(entry.names(tool) for entry in only)
        )

    def refusal(self, context: Context, *spellings: Call) -> Verdict | None:
        """Return why the operator or the caller left out a call, given in every spelling; None: nobody did.

        Raises ContextError for a context that says what cannot be understood.
        """
        excluded, only = self._narrowed(context)
        tool = spellings[0].spec
        if entry := next((each for each in self.excluded if any(map(each.may_mean, spellings))), None):
            return Verdict("deny", "policy", {"operator": entry.text})
        if entry := next((each for each in excluded if any(map(each.may_mean, spellings))), None):
            return Verdict("deny", "caller", {"caller": entry.text})
        if only is None or any(any_permits(only, call) for call in spellings):
            return None
        if tool.framework and not any(entry.names(tool.name) for entry in only):
            return None
        return Verdict("deny", "caller", {"caller": f"this call of {tool.name}"})

    def skill_refusal(self, skill: SkillMetadata | SkillRef, context: Context) -> str | None:
        """Return why nobody may load a skill in this request; None where it may be loaded."""
        names = (skill.name, f"{skill.name}@{skill.source}")
        for chosen in context.skill_sets:
            if not is_in_set(names, self._skill_set(chosen)):
                return f"Not run: {skill.name} is not in the skill set {chosen} of this run."
        calls = (self.grammar.call(LOAD_SKILL, {"name": name}) for name in names)
        refusal = self.refusal(context, *calls)
        return refusal.reason if refusal else None

    def skills_left_out(self, catalog: Catalog, context: Context) -> frozenset[str]:
        """Return the names of the skills that nobody may load in this request: no prompt shows them."""
        excluded, only = self._narrowed(context)
        entries = (*self.excluded, *excluded, *(only or ()))
        if not context.skill_sets and not any(entry.names(LOAD_SKILL) for entry in entries):
            return frozenset()
        return frozenset(skill.name for skill in catalog.skills if self.skill_refusal(skill, context))

    def _skill_set(self, name: str) -> Sequence[str]:
        if name not in self.skill_sets:
            known = ", ".join(self.skill_sets) or "none"
            raise ContextError(f"The context.skills: no skill set is called {name!r}. There are: {known}.")
        return self.skill_sets[name]

    def _narrowed(self, context: Context) -> tuple[tuple[Entry, ...], tuple[Entry, ...] | None]:
        """Return what the caller left out, and what alone the caller lets pass (None: everything)."""
        only = None if context.only_tools is None else tuple(self._entries(context, "only_tools"))
        return tuple(self._entries(context, "exclude_tools")), only

    def _entries(self, context: Context, field: Literal["exclude_tools", "only_tools"]) -> Iterator[Entry]:
        for text in getattr(context, field):
            is_tool = text in self.tools or text in self.provider_tools
            # A graph around the agent may speak of its own tools.
            parse = self.grammar.parse if context.is_of_host else self.grammar.parse_named
            try:
                yield self.grammar.named(text) if is_tool else parse(text)
            except EntryNotUnderstoodError as error:
                raise ContextError(f"The context.{field}: {error}") from error

    def schema(self, name: str) -> type[BaseModel] | None:
        """Return the class of a tool's arguments; None where its schema is none, or no such tool is there."""
        tool = self.tools.get(name)
        schema = tool.tool_call_schema if tool else None
        return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None

    def arguments(self, call: Call) -> Mapping[str, Any]:
        """Return the arguments as the tool gets them: a schema may split a text into words."""
        schema = self.schema(call.tool)
        try:
            return schema.model_validate(call.args).model_dump() if schema else call.args
        except ValidationError:
            return call.args

    def fitted(self, tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that a person wrote as the schema of the tool reads them, as JSON.

        A UI may send lists, objects and numbers as text. What does not fit stays as it is, and is refused.
        """
        schema = self.schema(tool)
        if schema is None:
            return dict(args)
        read = dict(args)
        for _ in range(2):  # as they are, then with what does not fit read as JSON
            try:
                return schema.model_validate(read).model_dump(mode="json", exclude_unset=True, by_alias=True)
            except ValidationError as error:
                for name in {str(fault["loc"][0]) for fault in error.errors() if fault["loc"]}:
                    if isinstance(text := read.get(name), str):
                        with suppress(ValueError):
                            read[name] = json.loads(text)
            except ValueError:  # It is nothing that JSON can say.
                break
        return dict(args)

    def change(self, call: Call) -> FileChange | None:
        """Return what a call would change in a file, as it is now; None for calls that write no one file."""
        change = self.means.changes.get(call.tool)
        return change(self.arguments(call)) if change else None

    def measured(self, call: Call, context: Context) -> str:
        """Return what measuring says of a call before a person is asked; empty for most."""
        measure = self.means.measures.get(call.tool)
        return measure(self.arguments(call), context) if measure else ""

    def fault(self, tool: str, args: Mapping[str, Any]) -> str | None:
        """Say what is wrong with a call's arguments; None where they fit or the schema is not a class."""
        try:
            if schema := self.schema(tool):
                schema.model_validate(args)
        except ValidationError as error:
            return argument_faults(error.errors())
        return None


def argument_faults(faults: Iterable[Any]) -> str:
    """Say what is wrong with which argument, as pydantic lists it, without repeating the arguments."""
    return "; ".join(f"{'.'.join(map(str, it['loc'])) or 'arguments'}: {it['msg']}" for it in faults)
