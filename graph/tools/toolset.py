"""The tools that the project brings, in the order in which they are bound."""

from langchain_core.tools import BaseTool

from skills_agent.graph.tools.command import command_tools
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.files import file_tools
from skills_agent.graph.tools.plan import UPDATE_PLAN, update_plan
from skills_agent.graph.tools.search import Search
from skills_agent.graph.tools.skills import skill_tools
from skills_agent.graph.tools.workplace import Workdir
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.skills.library.library import Library
from skills_agent.skills.scripts import ScriptRunner


def build_tools(
    library: Library,
    runner: ScriptRunner,
    workplace: Workdir,
    *,
    run_command: bool = False,
    images: bool = False,
) -> list[BaseTool]:
    """Return every tool but `load_skill`, which the graph carries out itself.

    The order is fixed: it is part of the prompt that a provider caches. `run_command` adds that tool;
    with `images`, the tools that read files show images to the model.
    """
    workspace = workplace.workspace
    return [
        *skill_tools(library, runner, workplace, images=images),
        declare(update_plan, description=UPDATE_PLAN),
        *file_tools(Workspace(workspace), Search(workspace), images=images),
        *(command_tools(runner, workplace) if run_command else ()),
    ]
