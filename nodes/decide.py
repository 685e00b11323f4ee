"""decide: ask the model what to do next."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool

from skills_agent.nodes import prompt
from skills_agent.nodes.model_call import Models, Request, model_node, shown_skills, usage_of
from skills_agent.skills.policy.risk import FRAMEWORK_TOOLS
from skills_agent.skills.registry import Registry
from skills_agent.state.budget import counts_of_turn
from skills_agent.state.context import Context, Limits
from skills_agent.state.schema import AgentState, AgentUpdate

SKILL_TOOLS = FRAMEWORK_TOOLS | {"run_script"} - {"update_plan"}
"""Tools that make no sense, and are not offered, where there are no skills."""


def decide(
    *,
    models: Models,
    registry: Registry,
    tools: Sequence[BaseTool],
    limits: Limits,
    catalog_budget: int,
) -> RunnableLambda[AgentState, AgentUpdate]:
    """Return the node that renders the prompt, calls the model and appends its message.

    Which tools are bound does not depend on what is loaded: a changed list costs the provider's
    prompt cache, so the gate refuses instead.
    """

    def prepare(state: AgentState, context: Context) -> Request:
        skills = shown_skills(state, registry, catalog_budget)
        offered = [
            tool
            for tool in tools
            if tool.name not in context.exclude_tools and (skills or tool.name not in SKILL_TOOLS)
        ]
        status = prompt.status_text(
            state.get("skills_loaded") or {},
            state.get("skill_resources") or {},
            state.get("plan"),
            counts_of_turn(state),
            context.narrow(limits),
        )
        bound: list[BaseTool | dict[str, Any]] = [*offered]
        if skills:
            bound.insert(0, skills.load_skill)
        chosen = models.choose(context.model)
        rendered = prompt.render(state.get("messages") or [], skills and skills.in_prompt, status)
        model = chosen.chat.bind_tools(bound) if bound else chosen.chat
        return Request(chosen.name, model, rendered)

    def finish(state: AgentState, _context: Context, message: AIMessage | None) -> AgentUpdate:
        assert message is not None  # noqa: S101 - prepare always asks
        return AgentUpdate(messages=[message], **usage_of(state, message))

    return model_node("decide", prepare, finish, models)
