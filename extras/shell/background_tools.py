"""Commands in the background: how one is started, command_output and stop_command."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import Field

from skills_agent.graph.audit.events import Record, event
from skills_agent.graph.threads.left_running import END_SECONDS
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.equipment import Equipment
from skills_agent.graph.tools.live_output import live_output, while_it_goes_on
from skills_agent.graph.tools.skills import ThreadRuntime
from skills_agent.nodes.effects import INVOCATION_KEY
from skills_agent.shell.background import BackgroundCommand, BackgroundCommands, new_id
from skills_agent.shell.command_line import explained
from skills_agent.skills.scripts.report import describe, streams
from skills_agent.skills.scripts.runner import SANDBOXED, ScriptRequest, Stop

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


@dataclass(frozen=True)
class Background:
    """Starts commands in the background, and tells of them."""

    equipment: Equipment
    commands: BackgroundCommands

    def tools(self) -> list[BaseTool]:
        """Return command_output and stop_command."""
        return [declare(self.command_output), declare(self.stop_command)]

    def start(self, request: ScriptRequest, runtime: ThreadRuntime) -> tuple[str, dict[str, Any]]:
        """Start a command; return what the model reads, and what machines keep. Raises ScriptError."""
        cancellation, stop, name = self.equipment.cancellation(), request.stop, new_id()
        live = live_output(self.equipment.audit, runtime, "run_command", cancellation, name)
        record = self._recorder(runtime)

        def stop_or_tell() -> Stop | None:
            live.tick()
            # Of a run that is over, it is said to the command whether it ends.
            return None if cancellation.is_requested else stop()

        def end(command: BackgroundCommand) -> None:
            live.end()
            record(command)

        watched = replace(request, stop=stop_or_tell)
        command = BackgroundCommand(name, _thread_of(runtime), run_of(runtime.config), watched)
        self.commands.start(command, self.equipment.runner, cancellation.part(), live.add, end)
        command.has_ended.wait(FIRST_LOOK_SECONDS)
        alone = ALONE if self.equipment.runner.preflight(request) == SANDBOXED else ""
        text = f"{_told(command)}\n[{LIVES}{alone}]"
        return text, {"command": command.id}

    def command_output(self, id: Id, runtime: ThreadRuntime, wait: Wait = None) -> str:  # noqa: A002
        """Read what a background command printed since the last look."""
        command = self._find(id, runtime)
        cancellation = self.equipment.cancellation()
        seconds = min(wait or 0, self.equipment.settings.script_timeout)
        while seconds > 0 and not cancellation.is_requested:
            if command.has_ended.wait(min(seconds, LOOK_SECONDS)):
                break
            seconds -= LOOK_SECONDS
        return _told(command)

    def stop_command(self, id: Id, runtime: ThreadRuntime) -> str:  # noqa: A002
        """End a background command."""
        command = self._find(id, runtime)
        command.stop("request")
        command.has_ended.wait(END_SECONDS)
        return _told(command)

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
        record = self.equipment.audit.afterwards(runtime.state)
        call_id, cancellation = runtime.tool_call_id or "", self.equipment.cancellation()
        write = while_it_goes_on(runtime.stream_writer, cancellation)

        def ended(command: BackgroundCommand) -> None:
            if record is None:
                return
            command.record = record(_event_of(command, call_id))
            # The last part of a run tells of what ended with it.
            if command.stopped != "run" and not cancellation.is_requested:
                write(command.record)

        return ended


def run_of(config: RunnableConfig) -> str:
    """Return the id of the run that a tool is called in."""
    return str(config.get("configurable", {}).get(INVOCATION_KEY, ""))


def _thread_of(runtime: ThreadRuntime) -> str:
    """Return the id of a thread, or of the run of none."""
    return str(runtime.config.get("configurable", {}).get("thread_id") or run_of(runtime.config))


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
