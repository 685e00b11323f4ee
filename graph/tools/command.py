"""The tool that runs a program: run_command. Off unless the operator turns it on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from pydantic import Field

from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.outcome import Outcome, outcome_of
from skills_agent.graph.tools.shutdown import shutdown_of_run
from skills_agent.graph.tools.workplace import Workdir
from skills_agent.skills.scripts import ScriptRunner
from skills_agent.skills.scripts.request import command_request

RUN_COMMAND = (
    "Run one program with its arguments in the working directory. Gives exit code, stdout and stderr. "
    "There is no shell: no pipes, redirections, wildcards, variables or `cd`."
)

Command = Annotated[str, Field(description="E.g. git log --oneline -5")]


def command_tools(runner: ScriptRunner, workplace: Workdir) -> list[BaseTool]:
    """Return the one tool."""

    def run_command(
        command: Command, runtime: ToolRuntime[Any, Mapping[str, Any]], stdin: str | None = None
    ) -> Outcome:
        """Run a program and give its outcome; a failing program is a result."""
        request = command_request(command, workdir=workplace.of(runtime.config))
        return outcome_of(runner.run(replace(request, stdin=stdin, shutdown=shutdown_of_run())))

    return [declare(run_command, description=RUN_COMMAND, with_artifact=True)]
