"""What the parts of one agent share: the channels of its state, and the services behind them.

Parts do not know each other when a program makes them. Each writes its key into the state when a run begins.
By these keys every hook finds the same services, also in another process that goes on with the thread.
"""

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, ClassVar, Final, NotRequired, cast
from weakref import WeakSet

from langchain.agents.middleware.types import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    OmitFromInput,
    PrivateStateAttr,
)
from langchain.agents.middleware.types import AgentState as HostState
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import run_in_executor
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from typing_extensions import override

from skills_agent.graph.models.offline.model import OfflineChatModel
from skills_agent.graph.services import HostParts, Services, once
from skills_agent.graph.settings import Settings, SettingsError, setting_kinds
from skills_agent.graph.tools import build_tools
from skills_agent.graph.tools.change import Changes
from skills_agent.graph.tools.host_tools import HostTools
from skills_agent.graph.tools.tool_table import ToolTable
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.schemas import lean_tools
from skills_agent.nodes.two_paths import Steps
from skills_agent.parts.driving import awaited, driven
from skills_agent.skills.policy.patterns import Places
from skills_agent.state.records import (
    CatalogRecord,
    GrantRecord,
    LoadedSkill,
    SkillResources,
    UsageRecord,
    VerdictRecord,
)
from skills_agent.state.reducers import add_usage, merge_messages, merge_records, newest_catalog
from skills_agent.state.schema import AgentState, AgentUpdate, CallRequest
from skills_agent.state.transcript import LOAD_SKILL

logger = logging.getLogger(__name__)

Request = ModelRequest[Any]
Response = ModelResponse[Any]
_IN_CODE: Final = {"audit": "off", "bundled_skills": False}
"""Settings of our own graph that mean nothing here: the agent has its own record."""


def merge_names(left: dict[str, str] | None, right: dict[str, str] | None) -> dict[str, str]:
    """Merge values by name: no name is written by two nodes of a step."""
    return {**(left or {}), **(right or {})}


class PartState(HostState[Any]):
    """The channels that the parts add to an agent's state. A client writes none of them but `skills`."""

    # LangGraph takes what stands last for the reducer.
    skills: NotRequired[list[str]]
    """Names of skills to load before the model is asked; `name@source` picks a source."""
    skills_loaded: NotRequired[Annotated[dict[str, LoadedSkill], OmitFromInput, merge_records]]
    """The ledger, by name of the skill."""
    skill_resources: NotRequired[Annotated[dict[str, SkillResources], PrivateStateAttr, merge_records]]
    catalog: NotRequired[Annotated[CatalogRecord, PrivateStateAttr, newest_catalog]]
    verdicts: NotRequired[Annotated[dict[str, VerdictRecord], PrivateStateAttr]]
    """The verdicts on the calls of the last message, by call id."""
    grants: NotRequired[Annotated[dict[str, GrantRecord], OmitFromInput, merge_records]]
    usage: NotRequired[Annotated[UsageRecord, PrivateStateAttr, add_usage]]
    skills_agent_parts: NotRequired[Annotated[dict[str, str], PrivateStateAttr, merge_names]]
    """The keys of the parts of the agent, by kind."""
    skills_agent_announced: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]
    """The digests of the effects of the last reply that the journal knows of, by call id."""
    skills_agent_risks: NotRequired[Annotated[dict[str, str], PrivateStateAttr, merge_names]]
    """What each tool of the agent risks, by name."""


_REDUCERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "messages": merge_messages,
    "skills_loaded": merge_records,
    "skill_resources": merge_records,
    "grants": merge_records,
    "usage": add_usage,
    "catalog": newest_catalog,
}
CHANNELS: Final = frozenset({"messages", *PartState.__annotations__})


def applied(state: Mapping[str, Any], update: Mapping[str, Any]) -> AgentState:
    """Return a state after an update, for the function that comes next in the same hook."""
    changed = {
        name: _REDUCERS[name](state.get(name), value) if name in _REDUCERS else value
        for name, value in update.items()
    }
    return cast("AgentState", {**state, **changed})


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> AgentUpdate:
    """Return two updates, one after the other, as one; without what is no channel of the parts."""
    both = {**applied(first, second), "messages": [*first.get("messages", ()), *second.get("messages", ())]}
    return cast("AgentUpdate", {name: value for name, value in both.items() if name in CHANNELS})


def own_state(state: Mapping[str, Any]) -> AgentState:
    """Return the state of an agent as our nodes read it. Raises SettingsError where a name is taken."""
    for name in _REDUCERS.keys() - {"messages"}:
        if not isinstance(state.get(name) or {}, dict):
            raise SettingsError(
                f"The state of your agent has a field {name}, which the parts use: rename yours."
            )
    return cast("AgentState", {**state})


def name_of(tool: object) -> str:
    """Return the name of a tool that a model is offered; empty for one that its provider runs."""
    if isinstance(tool, dict):
        return str(tool.get("function", {}).get("name", ""))
    return str(getattr(tool, "name", ""))


_PARTS: Final[defaultdict[str, "WeakSet[Part]"]] = defaultdict(WeakSet)
"""The parts of this process, by key: those of one key are alike, and one goes on without the others."""
_LOCK: Final = Lock()


class Part(AgentMiddleware[PartState, Any, Any]):
    """One part: a middleware of LangChain over the functions that the nodes of our own graph call."""

    state_schema = PartState
    kind: ClassVar[str]

    def __init__(self, values: Mapping[str, Any], tools: Collection[str] = ()) -> None:
        """Take settings, and what a host may bring (`HostParts`), by their names, and the names of its tools.

        Raises SettingsError.
        """
        self.values = values
        self.tools = []
        own = PartServices((self,))  # checks the settings
        self.tools = [tool for tool in own.all_tools() if tool.name in tools] if tools else []
        told = {name: _told(value) for name, value in values.items()}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        with _LOCK:
            # Parts that differ in an object alone are told apart by the order in which a program makes them.
            keys = (f"{self.kind}-{digest}-{number}" for number in count(1))
            self.key = next(key for key in keys if all(part.values == values for part in _PARTS[key]))
            _PARTS[self.key].add(self)

    def services(self, state: Mapping[str, Any]) -> "PartServices":
        """Return what the parts of this agent work with, all with the same."""
        keys = {**(state.get("skills_agent_parts") or {}), self.kind: self.key}
        with _LOCK:
            found = [min(parts, key=id) for key in sorted(keys.values()) if (parts := [*_PARTS.get(key, ())])]
        return _services(tuple(found))

    @override
    def before_agent(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Say that this part is one of the agent's."""
        known = state.get("skills_agent_parts") or {}
        return None if known.get(self.kind) == self.key else {"skills_agent_parts": {self.kind: self.key}}

    def shown(self, request: Request) -> Request:
        """Return a model call as the model gets it."""
        return request

    def answered(self, request: Request, response: Response) -> Response | ExtendedModelResponse[Any]:
        """Return the reply to a model call, with what is written into the state beside it."""
        del request
        return response

    @override
    def wrap_model_call(
        self, request: Request, handler: Callable[[Request], Response]
    ) -> Response | ExtendedModelResponse[Any]:
        return self.answered(request, handler(self.shown(request)))

    @override
    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response | ExtendedModelResponse[Any]:
        shown = await run_in_executor(None, self.shown, request)
        return await run_in_executor(None, self.answered, request, await handler(shown))

    def steps(self, request: ToolCallRequest) -> Steps[Any] | None:
        """Return what becomes of a tool call; None where its tool is just called."""

    @override
    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        steps = self.steps(request)
        return driven(steps, handler) if steps else handler(self.of_all(request))

    @override
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        steps = self.steps(request)
        return await (awaited(steps, handler) if steps else handler(self.of_all(request)))

    def of_all(self, request: ToolCallRequest) -> ToolCallRequest:
        """Return the call of a tool of this part for the one that works with all parts of the agent."""
        name = request.tool_call["name"]
        if all(tool.name != name for tool in self.tools):
            return request
        return request.override(tool=self.services(request.state).offered.get(name, request.tool))


def _told(value: object) -> Any:
    """Return a value as every process has it: a source by its label, another object by its class alone."""
    if isinstance(value, list | tuple | set | frozenset):
        return sorted((_told(each) for each in value), key=repr)
    if isinstance(value, str | int | float | None):
        return value
    return str(value) if isinstance(value, Path) else [type(value).__qualname__, getattr(value, "label", "")]


class PartServices(Services):
    """What our own graph works with, by the settings of an agent's parts and over that agent's tools."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        """Join what the parts were given. Raises SettingsError where two of them contradict each other."""
        self._own = {tool.name for part in parts for tool in part.tools}
        kinds = {part.kind for part in parts}
        self.runs_scripts, self.is_traced = "workspace" in kinds, "trace" in kinds
        values: dict[str, Any] = {}
        for name, value in ((name, value) for part in parts for name, value in part.values.items()):
            if values.setdefault(name, value) != value:
                raise SettingsError(
                    f"Two parts of one agent have two values of {name}: give it to one of them."
                )
        # A tool that the agent itself does not know cannot be called: `skill_tools` is no setting here.
        known = HostParts.__annotations__.keys() - {"skill_tools"}
        of_host = {name: values.pop(name) for name in known if name in values}
        of_host["model"] = OfflineChatModel()  # The agent has its own, which no skill changes.
        own = {name: values.pop(name) for name in (*setting_kinds(), "home") if name in values}
        super().__init__(Settings(**{**_IN_CODE, **own}, extras=values), **cast("HostParts", of_host))

        if not self.runs_scripts:
            self.why_no_shell = str  # a tool of that name is the agent's own

    @once
    def policy(self) -> Policy:
        """What the operator allows; our own graph alone asks hooks."""
        return replace(super().policy, make_hooks=lambda _state, _about: None)

    @once
    def changes(self) -> Changes:
        """By tool of the parts, what says what a call would change in a file."""
        return {name: change for name, change in super().changes.items() if name in self._own}

    @once
    def offered(self) -> ToolTable:
        """The tools of the parts; those of the agent join when a model call or a tool call shows them."""
        settings = self.settings
        own = [tool for tool in self.all_tools() if tool.name in self._own]
        places = Places(str(settings.workspace), closed=tuple(map(str, self.closed)))
        return ToolTable(own, HostTools(), settings.tool_timeout, places, self.lines)

    @once
    def lean(self) -> Mapping[str, dict[str, Any]]:
        """Our own tools as models are told of them: with the schemas that small ones read best."""
        return lean_tools(tool for name, tool in self.offered.items() if name in self._own)

    def all_tools(self) -> list[BaseTool]:
        """Return every tool that our own graph has: a part offers some of them."""
        return build_tools(self)

    def know(self, tools: Iterable[object]) -> None:
        """Take in the tools of the agent: what each may do counts for verdicts. Raises SettingsError."""
        others = [tool for tool in tools if isinstance(tool, BaseTool) and tool.name not in self._own]
        if any(tool.name == LOAD_SKILL for tool in others):
            raise SettingsError(
                f"A tool of your agent is named {LOAD_SKILL}, which no part judges: rename it."
            )
        if any(self.offered.get(tool.name) is not tool for tool in others):
            self.offered.join(others, instead_of=[tool.name for tool in others])

    def risks(self) -> dict[str, str]:
        """Return what each known tool risks, by name: a process that goes on with the thread needs it."""
        return {name: self.offered.grammar.spec(name).risk for name in self.offered}

    def know_by_name(self, risks: Mapping[str, str]) -> None:
        """Take in tools of which this process has seen nothing yet: it goes on with a thread of another."""
        unseen = {name: risk for name, risk in risks.items() if name not in self.offered}
        any_object = {"type": "object", "properties": {}}
        self.know(
            StructuredTool(name=name, description="", args_schema=any_object, metadata={"risk": risk})
            for name, risk in unseen.items()
        )


@lru_cache(maxsize=64)
def _services(parts: tuple[Part, ...]) -> PartServices:
    return PartServices(parts)


class Unrecorded:
    """The observer of an agent whose host keeps the record."""

    def awaits(self, model: str) -> Callable[[int], None]:
        """Note nothing."""
        return lambda seconds: logger.debug("%s has not answered for %d s", model, seconds)

    def withdrawn(self, state: Any, message_id: str, reason: str, wait: float | None) -> None:
        """Note nothing."""

    def starts(self, request: CallRequest, *, is_lasting: bool) -> None:
        """Note nothing."""

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Note nothing."""

    def doubted(self, call: ToolCall, reason: str) -> None:
        """Log what was not believed."""
        logger.warning("call doubted: %s", reason, extra={"tool": call["name"]})
