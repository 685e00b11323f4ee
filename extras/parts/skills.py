"""Skills: their catalog in the prompt, their loads in a ledger, their files as resources."""

import time
from collections.abc import Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import run_in_executor
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import override

from skills_agent.nodes import prompt
from skills_agent.nodes.conversation import joined_content
from skills_agent.nodes.decide import useless_tools
from skills_agent.nodes.discover import discover
from skills_agent.nodes.load import load
from skills_agent.nodes.no_tool import as_loads
from skills_agent.nodes.select import select
from skills_agent.parts.calls import OneCall, approved, invocation_here
from skills_agent.parts.shared import (
    Part,
    PartServices,
    PartState,
    Request,
    Response,
    applied,
    joined,
    name_of,
    own_state,
)
from skills_agent.parts.trace import trace_loads
from skills_agent.skills.sources import Source
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import LOAD_SKILL, wants_skills, with_note

TOOLS = ("search_skills", "read_resource", "unload_skill")


class Skills(Part):
    """The skills of some folders, for a model that loads them when a task matches.

    What is loaded is a ledger in the state, with the digest of each version: instructions are shown where
    they were loaded, also after a summary. A person's `/name arguments` and the input `skills=[...]` load,
    too.
    """

    kind: ClassVar[str] = "skills"

    def __init__(
        self, *folders: str | PathLike[str], sources: Sequence[Source] = (), **settings: Any
    ) -> None:
        """Take folders, lowest precedence first, then other sources; without any, the standard folders.

        Further: settings of skills by their names, as `on_change="refresh"`. Raises SettingsError.
        """
        own = [DirectorySource(Path(each), str(each), required=True) for each in folders]
        given = [*own, *sources]
        super().__init__({**settings, **({"sources": tuple(given)} if given else {})}, TOOLS)
        self.tools = [*self.tools, _load_skill()]

    @override
    def before_model(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """At the beginning of a turn: look what skills there are, and load what the person named."""
        messages = state["messages"]
        if not messages or not isinstance(messages[-1], HumanMessage):
            return None
        services, now, runtime = self.services(state), own_state(state), _before_tools(runtime)
        update = discover(
            now,
            runtime,
            library=services.library,
            requests=services.requests,
            running=OneCall(invocation_here(services)),
            policy=services.policy,
        )
        return dict(joined(update, self._loaded(applied(now, update), runtime, services)))

    @override
    async def abefore_model(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return await run_in_executor(None, self.before_model, state, runtime)

    def _loaded(self, state: AgentState, runtime: Runtime[Any], services: PartServices) -> AgentUpdate:
        """Load the skills that are asked for; return what changed."""
        settings, policy = services.settings, services.policy
        update = select(
            state,
            runtime,
            policy=policy,
            limits=settings,
            on_change=settings.on_change,
            window=services.models.window,
            max_body_lines=settings.max_skill_body_lines,
        )
        now = applied(state, update)
        if any(each["decision"] == "ask" for each in (update.get("verdicts") or {}).values()):
            said = approved(now, runtime, policy)
            update, now = joined(update, said), applied(now, said)
        denied = {name for name, each in (now.get("verdicts") or {}).items() if each["decision"] == "deny"}
        for admission in update.get("admissions") or ():
            if admission["call_id"] in denied:
                continue
            start = time.time_ns()
            made = load(
                admission,
                runtime,
                policy=policy,
                max_body_lines=settings.max_skill_body_lines,
                running=OneCall(invocation_here(services)),
                state_now=partial(AgentState, **now),
                on_change=settings.on_change,
            )
            if services.is_traced:
                trace_loads(now.get("skills_loaded"), made.get("skills_loaded") or {}, start)
            update, now = joined(update, made), applied(now, made)
        return update

    @override
    def shown(self, request: Request) -> Request:
        """Return a request with the catalog, the loaded skills, and the tools that they need."""
        services, state = self.services(request.state), own_state(request.state)
        services.know(request.tools)
        skills = services.requests.shown_skills(state, request.runtime)
        useless = {*useless_tools(state, skills, services.policy), LOAD_SKILL}
        tools = [
            services.lean.get(name_of(each), each) for each in request.tools if name_of(each) not in useless
        ]
        if skills is None:
            return request.override(tools=tools)
        if skills.catalog.load_skill:
            tools = [skills.catalog.load_skill, *tools]
        note = prompt.found_text(request.messages, skills)
        _, *messages = prompt.render(request.messages, skills, note, ())
        text = f"{prompt.SKILLS}\n\n{skills.catalog.text}"
        before = request.system_message.content if request.system_message else ""
        system = SystemMessage(joined_content(before, text))
        return request.override(tools=tools, messages=messages, system_message=system)

    @override
    def answered(self, request: Request, response: Response) -> Response | ExtendedModelResponse[Any]:
        """Load what the model asks for, before any tool of its message runs."""
        services, state = self.services(request.state), own_state(request.state)
        if (skills := services.requests.shown_skills(state, request.runtime)) is None:
            return response
        offered = {*map(name_of, request.tools)}
        note = prompt.found_text(request.messages, skills)
        result = [
            with_note(as_loads(each, offered.__contains__, skills.is_loadable), note)
            if isinstance(each, AIMessage)
            else each
            for each in response.result
        ]
        response = ModelResponse(result, response.structured_response)
        now = applied(state, {"messages": result})
        if not wants_skills(now["messages"]):
            return response
        update = self._loaded(now, request.runtime, services)
        return ExtendedModelResponse(response, Command(update=dict(update)))


def _before_tools(runtime: Runtime[Any]) -> Runtime[Any]:
    """Return a runtime whose context may name tools that nobody knows yet: a model call shows the agent's."""
    context = runtime.context
    if not isinstance(context, Context):
        return runtime
    return runtime.override(context=context.model_dump(exclude_unset=True))


def _load_skill() -> BaseTool:
    def load_skill(name: str, arguments: str = "") -> str:
        """Load the instructions of a skill."""
        raise ToolException(f"Skill {name} {arguments} was not loaded: call load_skill again.")

    return StructuredTool.from_function(load_skill, handle_tool_error=True, metadata={"risk": "read"})
