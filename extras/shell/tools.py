"""The tool run_command."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from langchain_core.tools import ToolException
from pydantic import Field

from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.equipment import Equipment
from skills_agent.graph.tools.execution import Hosts, Programs, RunOutput, patterns
from skills_agent.graph.tools.of_extras import ExtraTools
from skills_agent.graph.tools.skills import ThreadRuntime
from skills_agent.shell.background import BackgroundCommands
from skills_agent.shell.background_tools import Background
from skills_agent.shell.command_line import command_request, explained
from skills_agent.shell.shell import take_apart
from skills_agent.skills.scripts.request import of_skill
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.scripts.spelling import read_spelling
from skills_agent.state.records import active_skills

BACKGROUND_SECONDS: Final = 3600.0
"""Until a command in the background is killed; it ends with its turn in any case."""

_SKILL_VARIABLE: Final = re.compile(r"\$\{?(?:CLAUDE_)?(?:SKILL_DIR|PLUGIN_ROOT)\b")
OfSkill = Annotated[str | None, Field(description="Loaded skill; its folder is $SKILL_DIR")]
InBackground = Annotated[bool, Field(description="Return at once, for servers")]
Timeout = Annotated[float | None, Field(gt=0)]
"""Seconds."""


def shell_tools(equipment: Equipment) -> ExtraTools:
    """Return run_command, command_output and stop_command."""
    commands = BackgroundCommands()
    equipment.left_running.join(commands)
    background = Background(equipment, commands)
    tools = _ShellTools(Programs(equipment), background)
    return ExtraTools([declare(tools.run_command, with_artifact=True), *background.tools()])


@dataclass(frozen=True)
class _ShellTools:
    programs: Programs
    background: Background

    def run_command(  # noqa: PLR0913, PLR0917 - they are what a model sends
        self,
        command: str,
        runtime: ThreadRuntime,
        skill: OfSkill = None,
        cwd: str | None = None,
        timeout: Timeout = None,
        stdin: str | None = None,
        background: InBackground = False,
        network: Hosts = (),
    ) -> RunOutput:
        """Run a command with bash, each in a new shell."""
        settings = self.programs.equipment.settings
        longest = BACKGROUND_SECONDS if background else settings.script_timeout
        if timeout is not None and timeout > longest:
            raise ToolException(
                f"Nothing was run: {timeout:g} seconds were asked for, and timeout is at most {longest:g} "
                "here."
            )
        request = command_request(
            command,
            workspace=self.programs.equipment.workdir.workspace,
            workdir=self.programs.equipment.workdir.of(runtime.config),
            cwd=cwd,
            timeout=timeout or (longest if background else None),
        )
        found = self.programs.skill(skill, runtime) if skill else None
        if found:
            registry, ref = found
            request = of_skill(request, registry, ref)
            request = self.programs.equipped(request, found, runtime)
        request = replace(request, hosts=patterns(network))
        if background:
            return RunOutput(*self.background.start(self.programs.prepared(request, stdin, runtime), runtime))
        output = self.programs.run(request, stdin, runtime, found, explained)
        hint = _hint(request, runtime) if output.artifact["exit_code"] else ""
        return output._replace(content=f"{output.content}\n[{hint}]") if hint else output


def _hint(request: ScriptRequest, runtime: ThreadRuntime) -> str:
    """Say which words of a command that failed are files of loaded skills, and how to reach them."""
    if not request.skill and _SKILL_VARIABLE.search(request.command):
        return "$SKILL_DIR is that of the skill that the argument skill names, and none was named"
    line = take_apart(request.command) or ()
    written = (word.text or word.raw for command in line for word in command.words)
    words = [word for word in written if not (request.start / word).exists()]
    resources = runtime.state.get("skill_resources") or {}
    for name, record in active_skills(runtime.state.get("skills_loaded")).items():
        paths = {resource["path"] for resource in resources.get(name, {}).get("files", [])}
        names = (name, Path(record["path"]).parent.name)
        for word in words:
            spelled = read_spelling(word.removeprefix("./"), (), names=names, is_file=paths.__contains__)
            if (meant := spelled.path) in paths:
                return (
                    f"{meant} is a file of the skill {name}, not of the workspace: use run_script, or "
                    f'run_command with skill="{name}" and "$SKILL_DIR/{meant}"'
                )
    return ""
