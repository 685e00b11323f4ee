"""The tools run_command, command_output and stop_command."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException
from pydantic import BaseModel, Field

from skills_agent.graph.audit.events import Record, event
from skills_agent.graph.threads.left_running import END_SECONDS
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.equipment import Equipment, workdir_of
from skills_agent.graph.tools.execution import Hosts, Programs, RunOutput, patterns
from skills_agent.graph.tools.held import settle
from skills_agent.graph.tools.live_output import live_output, while_it_goes_on
from skills_agent.graph.tools.of_extras import ExtraTools
from skills_agent.graph.tools.skills import ThreadRuntime
from skills_agent.nodes.effects import INVOCATION_KEY
from skills_agent.shell.background import BackgroundCommand, BackgroundCommands, new_id
from skills_agent.shell.command_line import command_request, explained
from skills_agent.shell.git_lines import steps_of
from skills_agent.shell.messages import literal
from skills_agent.shell.repositories import committer
from skills_agent.shell.sections import Sections
from skills_agent.shell.shell import take_apart
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.scripts.report import describe, streams
from skills_agent.skills.scripts.request import of_skill
from skills_agent.skills.scripts.runner import SANDBOXED, ScriptRequest, Stop
from skills_agent.skills.scripts.spelling import read_spelling
from skills_agent.state.call_attempt import call_attempt
from skills_agent.state.records import active_skills

BACKGROUND_SECONDS: Final = 3600.0
"""Until a command in the background is killed; it ends with its turn in any case."""
FIRST_LOOK_SECONDS: Final = 0.3
"""A command that cannot begin (a wrong option, a port in use) has ended by then."""
LOOK_SECONDS: Final = 0.05
"""Between two looks whether the run was cancelled meanwhile."""
MAX_LAST: Final = 1_000
"""Characters of what a command printed last, in the event of its end."""
LIVES: Final = "It ends when you answer, at the latest."
ALONE: Final = " No other command reaches a port of it: each has a network of its own in the sandbox."

Id = str
"""What run_command returned."""
Wait = Annotated[float | None, Field(ge=0)]
"""Seconds."""
_SKILL_VARIABLE: Final = re.compile(r"\$\{?(?:CLAUDE_)?(?:SKILL_DIR|PLUGIN_ROOT)\b")


class CommandArguments(BaseModel):
    """What a model sends to run a command."""

    command: str
    skill: Annotated[str | None, Field(description="Loaded skill; its folder is $SKILL_DIR")] = None
    cwd: str | None = None
    timeout: Annotated[float | None, Field(gt=0)] = None
    """Seconds."""
    stdin: str | None = None
    background: Annotated[bool, Field(description="Return at once, for servers")] = False
    network: Hosts = ()


def shell_tools(equipment: Equipment) -> ExtraTools:
    """Return run_command, command_output and stop_command."""
    commands = BackgroundCommands()
    equipment.left_running.append(commands)
    tools = CommandTools(Programs(equipment), commands)
    run_command = declare(tools.run_command, arguments=CommandArguments, with_artifact=True)
    return ExtraTools([run_command, declare(tools.command_output), declare(tools.stop_command)])


@dataclass(frozen=True)
class CommandTools:
    """What the three tools do."""

    programs: Programs
    commands: BackgroundCommands

    def run_command(self, runtime: ThreadRuntime, **sent: Any) -> RunOutput:
        """Run a command with bash, each in a new shell."""
        sent["command"] = literal(sent["command"])
        if sent.get("background") or not steps_of(sent["command"]):
            return self._run(sent, runtime)
        return Sections(sent["command"], runtime, self.programs.equipment, self._run).output()

    def _run(self, sent: Mapping[str, Any], runtime: ThreadRuntime) -> RunOutput:
        """Run what bash runs at once, or git alone."""
        call, equipment = CommandArguments(**sent), self.programs.equipment
        longest = BACKGROUND_SECONDS if call.background else equipment.settings.script_timeout
        if call.timeout is not None and call.timeout > longest:
            raise ToolException(
                f"Nothing was run: {call.timeout:g} seconds were asked for, and timeout is at most "
                f"{longest:g} here."
            )
        request = command_request(
            call.command,
            workspace=equipment.settings.workspace,
            workdir=workdir_of(equipment.settings, runtime.config),
            cwd=call.cwd,
            timeout=call.timeout or (longest if call.background else None),
        )
        if request.repository:
            known = committer(request.repository, equipment.settings.workspace)
            request = replace(request, variables={**request.variables, **known})
        found = self.programs.skill(call.skill, runtime) if call.skill else None
        if found:
            registry, ref = found
            request = of_skill(request, registry, ref, registry.snapshot(ref))
            request = self.programs.equipped(request, found, runtime)
        request = replace(request, hosts=patterns(call.network))
        if call.background:
            return self._start(self.programs.prepared(request, call.stdin, runtime), runtime)
        output = self.programs.run(request, call.stdin, runtime, found, explained)
        hint = _hint(request, runtime) if output.artifact["exit_code"] else ""
        return output._replace(content=f"{output.content}\n[{hint}]") if hint else output

    def command_output(self, id: Id, runtime: ThreadRuntime, wait: Wait = None) -> str:  # noqa: A002
        """Read what a background command printed since the last look."""
        command = self._find(id, runtime)
        cancellation = self.programs.equipment.cancellation()
        seconds = min(wait or 0, self.programs.equipment.settings.script_timeout)
        while seconds > 0 and not cancellation.is_requested:
            if command.has_ended.wait(min(seconds, LOOK_SECONDS)):
                break
            seconds -= LOOK_SECONDS
        return self._looked_at(command, runtime, "command_output")

    def stop_command(self, id: Id, runtime: ThreadRuntime) -> str:  # noqa: A002
        """End a background command."""
        command = self._find(id, runtime)
        command.stop("request")
        command.has_ended.wait(END_SECONDS)
        return self._looked_at(command, runtime, "stop_command")

    def _looked_at(self, command: BackgroundCommand, runtime: ThreadRuntime, tool: str) -> str:
        """Return what is new of a command, as the model reads it; interrupts where a person is asked.

        They are asked about what it changed, and it goes on meanwhile.
        """
        runner, key = self.programs.equipment.runner, call_attempt(runtime).key
        told: list[str] = []
        if isinstance(runner, OwnRunner):
            told += runner.look(command.request.call, key)
            for call in (key, command.request.call):
                if held := runner.held(call):
                    settled = settle(held, runner, call, tool, self.programs.equipment.policy.approval)
                    told += settled.notices[len(held.result.notices) :]
        return "\n".join([_told(command), *told])

    def _start(self, request: ScriptRequest, runtime: ThreadRuntime) -> RunOutput:
        """Start a command in the background; return what the model reads, and what machines keep."""
        cancellation, stop, name = self.programs.equipment.cancellation(), request.stop, new_id()
        live = live_output(self.programs.equipment.audit, runtime, "run_command", cancellation, name)
        record = self._recorder(runtime)

        def stop_or_tell() -> Stop | None:
            live.tick()
            # Of a run that is over, it is said to the command whether it ends.
            return None if cancellation.is_requested else stop()

        def end(command: BackgroundCommand) -> None:
            live.end()
            record(command)

        watched = replace(request, stop=stop_or_tell)
        command = BackgroundCommand(name, _thread_of(runtime), _run_of(runtime.config), watched)
        self.commands.start(command, self.programs.equipment.runner, cancellation.part(), live.add, end)
        command.has_ended.wait(FIRST_LOOK_SECONDS)
        alone = ALONE if self.programs.equipment.runner.preflight(request) == SANDBOXED else ""
        text = f"{_told(command)}\n[{LIVES}{alone}]"
        return RunOutput(text, {"command": command.id})

    def _find(self, command: str, runtime: ThreadRuntime) -> BackgroundCommand:
        found = self.commands.find(_thread_of(runtime), command)
        if found is None:
            raise ToolException(
                f"No command {command!r} runs here: it ended with its turn, or there never was one. Start it "
                "again if it is still needed."
            )
        return found

    def _recorder(self, runtime: ThreadRuntime) -> Callable[[BackgroundCommand], None]:
        """Return what records the end of a command, and tells clients of it while its run goes on."""
        record = self.programs.equipment.audit.afterwards(runtime.state)
        call_id, cancellation = runtime.tool_call_id or "", self.programs.equipment.cancellation()
        write = while_it_goes_on(runtime.stream_writer, cancellation)

        def ended(command: BackgroundCommand) -> None:
            if record is None:
                return
            command.record = record(_event_of(command, call_id))
            # The last part of a run tells of what ended with it.
            if command.stopped != "run" and not cancellation.is_requested:
                write(command.record)

        return ended


def _run_of(config: RunnableConfig) -> str:
    """Return the id of the run that a tool is called in."""
    return str(config.get("configurable", {}).get(INVOCATION_KEY, ""))


def _thread_of(runtime: ThreadRuntime) -> str:
    """Return the id of a thread, or of the run of none."""
    return str(runtime.config.get("configurable", {}).get("thread_id") or _run_of(runtime.config))


def _told(command: BackgroundCommand) -> str:
    """Return what is new of a command, as the model reads it."""
    result, failure = command.result, command.failure  # before the look: then nothing comes after it
    stdout, stderr = command.look()
    if result:
        result = replace(explained(result, command.request), stdout=stdout, stderr=stderr)
        return f"{command.id} has ended: {describe(result)}"
    if failure:
        return f"{command.id} has ended: {failure}"
    shown = "\n".join(streams(stdout, stderr)) or "nothing new printed"
    return f"{command.id} runs ({command.seconds:.0f} s)\n{shown}"


def _event_of(command: BackgroundCommand, call_id: str) -> Record:
    result = explained(command.result, command.request) if command.result else None
    return event(
        "command_ended",
        call_id=call_id,
        command=command.id,
        exit_code=result.exit_code if result else None,
        stopped=result.stopped if result else None,
        output=command.unseen(MAX_LAST),
        error=command.failure,
        level=result.level if result else "",
        run_seconds=round(result.seconds, 4) if result else 0,
        written=[{"path": file.path, "size": file.size} for file in result.written] if result else [],
        written_more=result.written_more if result else 0,
        notices=list(result.notices) if result else [],
    )


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
