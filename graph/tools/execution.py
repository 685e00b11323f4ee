"""The tools that run programs: run_script, and run_command where the operator turns it on."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.runtime import get_runtime
from pydantic import BaseModel, BeforeValidator, Field

from skills_agent.graph.private_files import folder_name
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.skills import ThreadRuntime, loaded_skill
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.codes import ThreadCodes
from skills_agent.skills.confined import make_folder_beneath, refusing_links
from skills_agent.skills.library.registry import Library
from skills_agent.skills.policy.protected import protected_in
from skills_agent.skills.scripts.report import describe
from skills_agent.skills.scripts.request import as_arguments, command_request, script_request
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptRunner, Stop
from skills_agent.skills.skill import SkillRef
from skills_agent.state.call_attempt import call_attempt
from skills_agent.state.context import caller_of

WORK_FOLDER: Final = Path(".agent", "work")

Command = Annotated[str, Field(description="E.g. git log --oneline -5")]


@dataclass(frozen=True, slots=True)
class Workdir:
    """The folder that scripts and commands work in: the workspace, or a folder of each thread in it."""

    workspace: Path
    per_thread: bool = False
    protected: tuple[str, ...] = ()
    """What is protected in the workspace, beside `PROTECTED`."""

    def of(self, config: RunnableConfig) -> Path:
        """Return the folder of a thread; it is made if it is missing."""
        if not self.per_thread:
            return self.workspace
        thread = str(config.get("configurable", {}).get("thread_id") or "none")
        folder = WORK_FOLDER / folder_name(thread)
        # A link would lead out of the workspace, and the workspace may come from somebody else.
        with refusing_links(self.workspace / folder):
            os.close(make_folder_beneath(self.workspace, str(folder)))
        return self.workspace / folder


class RunOutput(NamedTuple):
    """A tool's result in LangChain's form `content_and_artifact`."""

    content: str
    """What the model reads."""
    artifact: dict[str, Any]
    """JSON: what the audit keeps. The output itself is in the content alone."""


class RunScriptArguments(BaseModel):
    """What a model sends to run a script."""

    skill: str
    path: str
    args: Annotated[list[str], BeforeValidator(as_arguments)] = []
    stdin: str | None = None


def run_tools(
    library: Library,
    runner: ScriptRunner,
    workdir: Workdir,
    codes: Callable[[], ThreadCodes],
    cancellation: Callable[[], Cancellation],
) -> list[BaseTool]:
    """Return run_script and run_command."""
    tools = _RunTools(library, runner, workdir, codes, cancellation)
    script = declare(tools.run_script, arguments=RunScriptArguments, with_artifact=True)
    return [script, declare(tools.run_command, with_artifact=True)]


@dataclass(frozen=True)
class _RunTools:
    library: Library
    runner: ScriptRunner
    workdir: Workdir
    codes: Callable[[], ThreadCodes]
    cancellation: Callable[[], Cancellation]

    def run_script(
        self,
        skill: str,
        path: str,
        runtime: ThreadRuntime,
        args: Sequence[str] = (),
        stdin: str | None = None,
    ) -> RunOutput:
        """Run a script of a loaded skill in the workspace.

        Gives exit code, stdout and stderr. There is no shell: no wildcards, pipes or redirections in args.
        """
        record = loaded_skill(runtime, skill)
        is_confirmed = self.codes().confirms("skill", record, skill)
        registry = self.library.of(caller_of(runtime), runtime.store)
        workdir = self.workdir.of(runtime.config)
        request = script_request(
            registry, SkillRef.of(record), path, args=args, workdir=workdir, is_confirmed=is_confirmed
        )
        return self._run(request, stdin, runtime)

    def run_command(self, command: Command, runtime: ThreadRuntime, stdin: str | None = None) -> RunOutput:
        """Run one program with its arguments in the working directory.

        Gives exit code, stdout and stderr. There is no shell: no pipes, redirections, wildcards, variables
        or `cd`.
        """
        request = command_request(command, workdir=self.workdir.of(runtime.config))
        return self._run(request, stdin, runtime)

    def _run(self, request: ScriptRequest, stdin: str | None, runtime: ThreadRuntime) -> RunOutput:
        found = protected_in(request.args, self.workdir.workspace, self.workdir.protected, request.workdir)
        # Policy asks about every call that names one, so this one was approved.
        writable = tuple(each.place for each in found if each.place)
        variables = call_attempt(runtime).variables
        request = replace(request, stdin=stdin, stop=self._stop(), writable=writable, variables=variables)
        result = self.runner.run(request)
        artifact = {
            "exit_code": result.exit_code,
            "level": result.level,
            "run_seconds": round(result.seconds, 4),
            "stopped": result.stopped,
            "stdout_bytes": _size(result.stdout) + result.stdout_cut,
            "stderr_bytes": _size(result.stderr) + result.stderr_cut,
            "written": [{"path": file.path, "size": file.size} for file in result.written],
            "written_more": result.written_more,
            **({"notices": list(result.notices)} if result.notices else {}),
        }
        return RunOutput(describe(result), artifact)

    def _stop(self) -> Callable[[], Stop | None]:
        cancellation, runtime = self.cancellation(), get_runtime()
        # LangGraph's RunControl: a server that shuts down asks its runs to drain.
        control = runtime.control if runtime else None

        def stop() -> Stop | None:
            if cancellation.is_requested:
                return "cancelled"
            return "shutdown" if control and control.drain_requested else None

        return stop


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
