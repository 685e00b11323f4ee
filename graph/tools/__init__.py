"""The tools that the model may call; what each one is stands in skills/policy/tool_spec.py."""

from typing import Final

from langchain_core.tools import BaseTool

from skills_agent.graph.tools.ask_user import ask_user
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.edit import EditArguments
from skills_agent.graph.tools.equipment import Equipment
from skills_agent.graph.tools.execution import Programs, RunScriptArguments
from skills_agent.graph.tools.files import FileTools
from skills_agent.graph.tools.plan import update_plan
from skills_agent.graph.tools.skills import SkillTools

ORDER: Final = (
    *("read_file", "list_dir", "grep", "write_file", "edit_file", "run_command", "update_plan", "ask_user"),
    *("fetch_url", "propose_skill", "call_tool"),
    # Last, what is offered in the course of a thread.
    *("run_script", "read_resource", "search_skills", "unload_skill", "command_output", "stop_command"),
)
"""Of tools in the prompt, which a provider caches; those of other extras come behind these."""


def build_tools(equipment: Equipment, *, for_skills: bool = False) -> list[BaseTool]:
    """Return every tool but `load_skill`, which the graph carries out itself.

    `for_skills`: a host brings tools of skills, which models call by `call_tool`.
    """
    settings = equipment.settings
    files = FileTools(equipment.files, settings.read_images)
    skills = SkillTools(equipment.registry, equipment.left_out, settings.read_images)
    run_script = Programs(equipment).run_script
    tools = [
        declare(update_plan),
        declare(files.read_file),
        declare(files.list_dir),
        declare(files.grep),
        declare(files.write_file),
        declare(files.edit_file, arguments=EditArguments),
        *([declare(ask_user)] if settings.approval == "ask" else []),
        declare(run_script, arguments=RunScriptArguments, with_artifact=True),
        declare(skills.read_resource),
        declare(skills.search_skills),
        declare(skills.unload_skill),
        *([declare(skills.call_tool)] if for_skills else []),
        *(tool for extra in equipment.of_extras for tool in extra.tools),
    ]
    return sorted(tools, key=lambda tool: ORDER.index(tool.name) if tool.name in ORDER else len(ORDER))
