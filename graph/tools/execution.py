"""The tools that run programs: run_script and run_command."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from langchain_core.tools import BaseTool, ToolException
from langgraph.runtime import get_runtime
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.equipment import Equipment
from skills_agent.graph.tools.skills import ThreadRuntime, loaded_skill
from skills_agent.needs.failures import diagnosed
from skills_agent.needs.installation import Installation
from skills_agent.shell.background_tools import Background, live_output
from skills_agent.shell.shell import take_apart
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.network.hosts import HostPattern, HostPatternError
from skills_agent.skills.policy.protected import protected_in, protected_in_command
from skills_agent.skills.scripts.command_line import command_request, explained
from skills_agent.skills.scripts.report import describe
from skills_agent.skills.scripts.request import as_arguments, of_skill, script_request
from skills_agent.skills.scripts.runner import ScriptRequest, Stop
from skills_agent.skills.scripts.spelling import SkillFiles, read_spelling
from skills_agent.skills.skill import Need, SkillRef
from skills_agent.state.call_attempt import call_attempt
from skills_agent.state.context import caller_of
from skills_agent.state.records import active_skills

_SKILL_VARIABLE: Final = re.compile(r"\$\{?(?:CLAUDE_)?(?:SKILL_DIR|PLUGIN_ROOT)\b")
OfSkill = Annotated[str | None, Field(description="Loaded skill; its folder is $SKILL_DIR")]
InBackground = Annotated[bool, Field(description="Return at once, for servers")]
Timeout = Annotated[float | None, Field(gt=0)]
"""Seconds."""


def _patterns(texts: Sequence[str]) -> tuple[HostPattern, ...]:
    """Return the hosts that a call names. Raises HostPatternError."""
    return tuple(map(HostPattern.parse, texts))


def _hosts(texts: Sequence[str]) -> Sequence[str]:
    """Refuse what is no host before anybody is asked about it."""
    try:
        return tuple(map(str, _patterns(texts)))
    except HostPatternError as error:
        raise ValueError(str(error)) from error


Hosts = Annotated[
    Sequence[str],
    AfterValidator(_hosts),
    Field(description="Hosts that it has to reach"),
]


class RunOutput(NamedTuple):
    """A tool's result in LangChain's form `content_and_artifact`."""

    content: str
    """What the model reads."""
    artifact: dict[str, Any]
    """JSON: what the audit keeps. The output itself is in the content alone."""


ScriptCwd = Literal["workspace", "skill"] | None
"""Where it starts; its own folder is read-only."""


class RunScriptArguments(BaseModel):
    """What a model sends to run a script."""

    skill: str
    path: str
    args: Annotated[list[str], BeforeValidator(as_arguments)] = []
    stdin: str | None = None
    cwd: ScriptCwd = None
    network: Hosts = ()


def run_tools(equipment: Equipment) -> list[BaseTool]:
    """Return run_script, run_command, command_output and stop_command."""
    background = Background(equipment)
    tools = _RunTools(equipment, background)
    script = declare(tools.run_script, arguments=RunScriptArguments, with_artifact=True)
    return [script, declare(tools.run_command, with_artifact=True), *background.tools()]


class _FoundSkill(NamedTuple):
    """A loaded skill that a call names."""

    registry: Registry
    ref: SkillRef
    is_confirmed: bool
    """As in `script_request`."""


@dataclass(frozen=True)
class _RunTools:
    equipment: Equipment
    background: Background

    def run_script(
        self,
        skill: str,
        path: str,
        runtime: ThreadRuntime,
        args: Sequence[str] = (),
        stdin: str | None = None,
        cwd: ScriptCwd = None,
        network: Sequence[str] = (),
    ) -> RunOutput:
        """Run a script of a loaded skill, without a shell: no wildcards or pipes in args."""
        registry, ref, is_confirmed = found = self._skill(skill, runtime)
        workdir = self.equipment.workdir.of(runtime.config)
        request = script_request(registry, ref, path, args=args, workdir=workdir, is_confirmed=is_confirmed)
        request = self._equipped(request, found, runtime)
        start = cwd or registry.load(ref).metadata.metadata.get("cwd")
        request = replace(request, in_skill=start == "skill", hosts=_patterns(network))
        return self._run(request, stdin, runtime, found)

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
        settings = self.equipment.settings
        longest = settings.background_timeout if background else settings.script_timeout
        if timeout is not None and timeout > longest:
            raise ToolException(
                f"Nothing was run: {timeout:g} seconds were asked for, and timeout is at most {longest:g} "
                "here."
            )
        request = command_request(
            command,
            workspace=self.equipment.workdir.workspace,
            workdir=self.equipment.workdir.of(runtime.config),
            cwd=cwd,
            timeout=timeout or (longest if background else None),
        )
        found = self._skill(skill, runtime) if skill else None
        if found:
            registry, ref, is_confirmed = found
            request = of_skill(request, registry, ref, is_confirmed=is_confirmed)
            request = self._equipped(request, found, runtime)
        request = replace(request, hosts=_patterns(network))
        if background:
            return RunOutput(*self.background.start(self._prepared(request, stdin, runtime), runtime))
        output = self._run(request, stdin, runtime, found)
        hint = _hint(request, runtime) if output.artifact["exit_code"] else ""
        return output._replace(content=f"{output.content}\n[{hint}]") if hint else output

    def _skill(self, name: str, runtime: ThreadRuntime) -> "_FoundSkill":
        record = loaded_skill(runtime, name)
        is_confirmed = self.equipment.codes().confirms("skill", record, name)
        return _FoundSkill(
            self.equipment.library.of(caller_of(runtime), runtime.store), SkillRef.of(record), is_confirmed
        )

    def _equipped(
        self, request: ScriptRequest, skill: "_FoundSkill", runtime: ThreadRuntime
    ) -> ScriptRequest:
        """Return the request of a skill with its packages and its HOME."""
        registry, ref, is_confirmed = skill
        if self.equipment.machine:
            needs = registry.needs(ref)
            self._install(needs, ref, runtime)
            request = self.equipment.machine.equip(request, needs)
        home = self.equipment.kept.home(ref, runtime, registry, confirmed=is_confirmed)
        return replace(request, home=home)

    def _install(self, needs: Sequence[Need], ref: SkillRef, runtime: ThreadRuntime) -> None:
        """Install what a person approved with this call, and nothing else. Raises InstallError."""
        call_id = runtime.tool_call_id or ""
        verdict = (runtime.state.get("verdicts") or {}).get(call_id)
        if verdict is None or verdict["decision"] != "allow" or verdict["by"] != "approval":
            return
        install, environments = (
            verdict.get("install"),
            self.equipment.machine.environments if self.equipment.machine else None,
        )
        is_own = verdict.get("skill") == ref.name and self.equipment.codes().confirms(
            "verdict", verdict, call_id
        )
        if install and environments and is_own:
            Installation.of_record(install).carry_out(environments, needs, ref)

    def _run(
        self, request: ScriptRequest, stdin: str | None, runtime: ThreadRuntime, skill: "_FoundSkill | None"
    ) -> RunOutput:
        tool = "run_command" if request.command else "run_script"
        live = live_output(self.equipment.audit, runtime, tool, self.equipment.cancellation())
        request = self._prepared(request, stdin, runtime)

        def stop() -> Stop | None:
            live.tick()
            return request.stop()

        try:
            result = self.equipment.runner.run(replace(request, stop=stop, on_output=live.add))
        finally:
            live.end()
        loaded = active_skills(runtime.state.get("skills_loaded"))
        ref = skill.ref if skill else None
        result, learned = diagnosed(explained(result, request), request, ref, self.equipment.machine, loaded)
        if skill and learned:
            skill.registry.learn(skill.ref, learned)
        artifact = {
            "exit_code": result.exit_code,
            "level": result.level,
            "run_seconds": round(result.seconds, 4),
            "stopped": result.stopped,
            "stdout_bytes": _size(result.stdout) + result.stdout_cut,
            "stderr_bytes": _size(result.stderr) + result.stderr_cut,
            "written": [{"path": file.path, "size": file.size} for file in result.written],
            "written_more": result.written_more,
            **({"kept": [file._asdict() for file in result.kept]} if result.kept else {}),
            **({"lost": [file._asdict() for file in result.lost]} if result.lost else {}),
            **({"notices": list(result.notices)} if result.notices else {}),
        }
        return RunOutput(describe(result), artifact)

    def _prepared(self, request: ScriptRequest, stdin: str | None, runtime: ThreadRuntime) -> ScriptRequest:
        return replace(
            request,
            stdin=stdin,
            stop=self._stop(),
            writable=self._approved_paths(request, runtime),
            variables={**request.variables, **call_attempt(runtime).variables},
            scratch=self.equipment.kept.scratch(runtime.config),
        )

    def _approved_paths(self, request: ScriptRequest, runtime: ThreadRuntime) -> tuple[Path, ...]:
        """Return the protected paths that a call names, where it was approved: policy asks about each."""
        verdict = (runtime.state.get("verdicts") or {}).get(runtime.tool_call_id)
        if verdict is None or verdict["by"] not in {"approval", "approver"}:
            return ()
        places = self.equipment.workdir.workspace, self.equipment.workdir.protected, request.workdir
        if not request.command:
            found = protected_in(request.args, *places)
        else:
            found = protected_in_command(request.command, *places, cwd=str(request.cwd or ""))
        return tuple(each.place for each in found if each.place)

    def _stop(self) -> Callable[[], Stop | None]:
        cancellation, runtime = self.equipment.cancellation(), get_runtime()
        # LangGraph's RunControl: a server that shuts down asks its runs to drain.
        control = runtime.control if runtime else None

        def stop() -> Stop | None:
            if cancellation.is_requested:
                return "cancelled"
            return "shutdown" if control and control.drain_requested else None

        return stop


def _hint(request: ScriptRequest, runtime: ThreadRuntime) -> str:
    """Say which words of a command that failed are files of loaded skills, and how to reach them."""
    if not request.skill and _SKILL_VARIABLE.search(request.command):
        return "$SKILL_DIR is that of the skill that the argument skill names, and none was named"
    line = take_apart(request.command or "") or ()
    written = (word.text or word.raw for command in line for word in command.words)
    words = [word for word in written if not (request.start / word).exists()]
    resources = runtime.state.get("skill_resources") or {}
    for name, record in active_skills(runtime.state.get("skills_loaded")).items():
        paths = {resource["path"] for resource in resources.get(name, {}).get("files", [])}
        files = SkillFiles((name, Path(record["path"]).parent.name), paths.__contains__, ())
        for meant in (read_spelling(word.removeprefix("./"), (), files).path for word in words):
            if meant in paths:
                return (
                    f"{meant} is a file of the skill {name}, not of the workspace: use run_script, or "
                    f'run_command with skill="{name}" and "$SKILL_DIR/{meant}"'
                )
    return ""


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
