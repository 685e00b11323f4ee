"""The tools that the model may call; what each one is stands in skills/policy/tool_spec.py."""

from collections.abc import Callable, Mapping

from langchain_core.tools import BaseTool

from skills_agent.graph.audit.recorder import Audit
from skills_agent.graph.tools.ask_user import AskUserArguments, ask_user
from skills_agent.graph.tools.declare import declare, spec_of
from skills_agent.graph.tools.execution import CommandLimits, Kept, Workdir, run_tools
from skills_agent.graph.tools.fetch import fetch_tool
from skills_agent.graph.tools.files import file_tools
from skills_agent.graph.tools.plan import update_plan
from skills_agent.graph.tools.skills import LeftOut, skill_tools
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.needs.here import Machine
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.codes import ThreadCodes
from skills_agent.shell.background import BackgroundCommands
from skills_agent.skills.library.registry import Library
from skills_agent.skills.scripts.runner import ScriptRunner

__all__ = ["CommandLimits", "Kept", "Workdir", "build_tools", "spec_of"]


def build_tools(  # noqa: PLR0913 - they are what the tools work with
    library: Library,
    runner: ScriptRunner,
    workdir: Workdir,
    files: Workspace,
    codes: Callable[[], ThreadCodes],
    *,
    kept: Kept | None = None,
    cancellation: Callable[[], Cancellation] = Cancellation,
    left_out: LeftOut | None = None,
    machine: Machine | None = None,
    commands: BackgroundCommands | None = None,
    watcher: Audit | None = None,
    limits: CommandLimits | None = None,
    images: bool = False,
    asks: bool = True,
    environment: Mapping[str, str] | None = None,
    proposing: BaseTool | None = None,
) -> list[BaseTool]:
    """Return every tool but `load_skill`, which the graph carries out itself.

    The order is fixed: it is part of the prompt that a provider caches. `commands` are those in
    the background, of which compiled graphs end what a run leaves; `watcher` tells of what programs print.
    With `images`, the tools that read files show images to the model. No search finds what is `left_out`.
    Without `kept`, scripts keep nothing outside of the workspace. `machine`
    has the packages that a person approved; None where scripts run elsewhere. `environment` may name a proxy
    that leads to the web. `proposing` is `propose_skill`, where the operator turned it on.
    """
    run_script, run_command, *of_background = run_tools(
        library,
        runner,
        workdir,
        kept,
        codes,
        cancellation,
        machine=machine,
        commands=commands or BackgroundCommands(),
        watcher=watcher,
        limits=limits or CommandLimits(),
    )
    return [
        declare(update_plan),
        *file_tools(files, images=images),
        *([declare(ask_user, arguments=AskUserArguments)] if asks else []),
        run_command,
        fetch_tool(environment),
        *([proposing] if proposing else []),
        # Last, what is offered in the course of a thread.
        run_script,
        *skill_tools(library, left_out=left_out, images=images),
        *of_background,
    ]
