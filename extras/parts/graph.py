"""The parts in a StateGraph of one's own, whose nodes one sees and stops at."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Final

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from skills_agent.graph.settings import SettingsError
from skills_agent.parts.shared import CHANNELS, Part, PartState, Request, Response, applied
from skills_agent.state.transcript import last_ai, open_calls

_WRITABLE: Final = frozenset({"messages", "skills"})


class PartInput(TypedDict, total=False):
    """What a caller of such a graph may write: a verdict, or a grant, is none of it."""

    messages: Annotated[list[AnyMessage], add_messages]
    skills: list[str]
    """Names of skills to load before the model is asked."""


def add_skills(
    builder: StateGraph[Any, Any, Any, Any],
    model: BaseChatModel,
    tools: Sequence[BaseTool] = (),
    *,
    parts: Sequence[Part],
    system_prompt: str = "",
    start: str = START,
    end: str = END,
) -> None:
    """Add the nodes `skills`, `model`, `gate` and `tools` to a graph, between `start` and `end`.

    `skills` begins a turn, `model` asks the model, `gate` judges its calls and asks a person, `tools` runs
    each call by itself. Raises SettingsError where the builder is not
    `StateGraph(State, input_schema=PartInput)` with a `class State(PartState)`.
    """
    _check(builder)
    kinds = [part.kind for part in parts]
    if twice := sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        raise SettingsError(
            f"There are two parts of the kind {twice[0]}: give all that it is to know to one."
        )
    offered = [*tools, *(tool for part in parts for tool in part.tools)]
    nodes = _Nodes(parts, model, offered, SystemMessage(system_prompt) if system_prompt else None, end)
    builder.add_node("skills", nodes.begin)
    builder.add_node("model", RunnableLambda(nodes.ask, nodes.ask_awaited))
    builder.add_node("gate", nodes.judge)
    builder.add_node("tools", tool_node(offered, parts))
    builder.add_edge(start, "skills")
    builder.add_edge("skills", "model")
    builder.add_edge("model", "gate")
    builder.add_conditional_edges("gate", nodes.next, ["tools", "model", end])
    builder.add_edge("tools", "model")


@dataclass(frozen=True)
class _Nodes:
    """The nodes, over the hooks of the parts."""

    parts: Sequence[Part]
    model: BaseChatModel
    tools: Sequence[BaseTool]
    system: SystemMessage | None
    end: str

    def begin(self, state: PartState, runtime: Runtime[Any]) -> list[Command[Any]] | None:
        begun = _made(part.before_agent(state, runtime) for part in self.parts)
        now: Any = _after(state, begun)
        return _written([*begun, *_made(part.before_model(now, runtime) for part in self.parts)])

    def judge(self, state: PartState, runtime: Runtime[Any]) -> list[Command[Any]] | None:
        made = _made(part.after_model(state, runtime) for part in reversed(self.parts))
        if self.next(_after(state, made)) == self.end:
            made += _made(part.after_agent(state, runtime) for part in reversed(self.parts))
        return _written(made)

    def ask(self, state: PartState) -> list[Command[Any]]:
        commands: list[Command[Any]] = []
        response = _chained([_layer(part, commands) for part in self.parts], _invoke)(self._request(state))
        return [Command(update={"messages": response.result}), *commands]

    async def ask_awaited(self, state: PartState) -> list[Command[Any]]:
        commands: list[Command[Any]] = []
        layers = [_awaited_layer(part, commands) for part in self.parts]
        response = await _chained(layers, _ainvoke)(self._request(state))
        return [Command(update={"messages": response.result}), *commands]

    def next(self, state: Mapping[str, Any]) -> str | list[Send]:
        """Return where a step leads: to each open call, back to the model, or on."""
        if calls := open_calls(state["messages"]):
            return [Send("tools", [call]) for call in calls]
        return self.end if state["messages"][-1] is last_ai(state["messages"]) else "model"

    def _request(self, state: PartState) -> Request:
        return ModelRequest(
            model=self.model,
            messages=state["messages"],
            system_message=self.system,
            tools=list(self.tools),
            state=state,
            runtime=get_runtime(),
        )


def tool_node(tools: Sequence[BaseTool], parts: Sequence[Part]) -> ToolNode:
    """Return a node that runs calls through the parts: for `Once`, it is all that a graph needs."""

    def call(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        return _chained([part.wrap_tool_call for part in parts], execute)(request)

    async def call_awaited(
        request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return await _chained([part.awrap_tool_call for part in parts], execute)(request)

    return ToolNode(list(tools), wrap_tool_call=call, awrap_tool_call=call_awaited)


def _check(builder: StateGraph[Any, Any, Any, Any]) -> None:
    if missing := sorted(CHANNELS - builder.channels.keys()):
        raise SettingsError(
            f"The state of this graph has no {missing[0]}. Write `class State(PartState)` with your own "
            "fields, and `StateGraph(State, input_schema=PartInput)`."
        )
    if open_ones := sorted((CHANNELS - _WRITABLE) & builder.schemas[builder.input_schema].keys()):
        raise SettingsError(
            f"Whoever calls this graph could write {open_ones[0]}. Write "
            "`StateGraph(State, input_schema=PartInput)`."
        )


def _made(updates: Iterable[dict[str, Any] | None]) -> list[dict[str, Any]]:
    return [update for update in updates if update]


def _written(updates: Iterable[dict[str, Any]]) -> list[Command[Any]] | None:
    return [Command(update=update) for update in updates] or None


def _after(state: Mapping[str, Any], updates: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    for update in updates:
        state = applied(state, update)
    return state


def _chained(hooks: Sequence[Callable[..., Any]], last: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what calls the first hook, which gets the next as its handler, and so on."""
    return reduce(lambda rest, hook: lambda request: hook(request, rest), reversed(hooks), last)


def _layer(part: Part, commands: list[Command[Any]]) -> Callable[..., Response]:
    def ask(request: Request, rest: Callable[[Request], Response]) -> Response:
        return _plain(part.wrap_model_call(request, rest), commands)

    return ask


def _awaited_layer(part: Part, commands: list[Command[Any]]) -> Callable[..., Awaitable[Response]]:
    async def ask(request: Request, rest: Callable[[Request], Awaitable[Response]]) -> Response:
        return _plain(await part.awrap_model_call(request, rest), commands)

    return ask


def _plain(response: Response | ExtendedModelResponse[Any], commands: list[Command[Any]]) -> Response:
    """Return a response without what a part writes with it, which joins the commands."""
    if not isinstance(response, ExtendedModelResponse):
        return response
    commands.extend([response.command] if response.command else [])
    return response.model_response


def _invoke(request: Request) -> Response:
    model, messages = _bound(request)
    return ModelResponse([model.invoke(messages)])


async def _ainvoke(request: Request) -> Response:
    model, messages = _bound(request)
    return ModelResponse([await model.ainvoke(messages)])


def _bound(request: Request) -> tuple[Any, list[AnyMessage]]:
    model = request.model.bind_tools(request.tools) if request.tools else request.model
    return model, [*([request.system_message] if request.system_message else []), *request.messages]
