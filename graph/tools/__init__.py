"""The tools that the model may call; what each one is stands in skills/policy/tool_spec.py."""

from collections.abc import Mapping

from langchain_core.tools import BaseTool

from skills_agent.graph.tools.ask_user import AskUserArguments, ask_user
from skills_agent.graph.tools.declare import declare, spec_of
from skills_agent.graph.tools.equipment import Equipment
from skills_agent.graph.tools.execution import run_tools
from skills_agent.graph.tools.fetch import fetch_tool
from skills_agent.graph.tools.files import file_tools
from skills_agent.graph.tools.plan import update_plan
from skills_agent.graph.tools.skills import skill_tools

__all__ = ["build_tools", "spec_of"]


def build_tools(
    equipment: Equipment, environment: Mapping[str, str] | None = None, proposing: BaseTool | None = None
) -> list[BaseTool]:
    """Return every tool but `load_skill`, which the graph carries out itself.

    The order is fixed: it is part of the prompt that a provider caches. `environment` may name a proxy
    that leads to the web. `proposing` is `propose_skill`, where the operator turned it on.
    """
    settings = equipment.settings
    run_script, run_command, *of_background = run_tools(equipment)
    return [
        declare(update_plan),
        *file_tools(equipment.files, images=settings.read_images),
        *([declare(ask_user, arguments=AskUserArguments)] if settings.approval == "ask" else []),
        run_command,
        fetch_tool(environment),
        *([proposing] if proposing else []),
        # Last, what is offered in the course of a thread.
        run_script,
        *skill_tools(equipment.library, left_out=equipment.left_out, images=settings.read_images),
        *of_background,
    ]
