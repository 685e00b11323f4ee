"""The tool run_script, and what every tool shares that runs programs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from langgraph.runtime import get_runtime
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from skills_agent.graph.audit.events import event
from skills_agent.graph.tools.equipment import Equipment, workdir_of
from skills_agent.graph.tools.held import settle
from skills_agent.graph.tools.live_output import live_output
from skills_agent.graph.tools.skills import ThreadRuntime, loaded_skill
from skills_agent.skills.errors import NetworkError, ScriptError
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.network.hosts import HostPattern
from skills_agent.skills.policy.protected import protected_in
from skills_agent.skills.scripts.changes import JudgedChange
from skills_agent.skills.scripts.choice import OwnRunner
from skills_agent.skills.scripts.report import describe
from skills_agent.skills.scripts.request import as_arguments, script_request
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult, Stop, WrittenFile
from skills_agent.skills.skill import Need, SkillRef
from skills_agent.skills.text import readable
from skills_agent.state.call_attempt import RUNNING_CALL, call_attempt
from skills_agent.state.context import caller_of
from skills_agent.state.records import active_skills


def patterns(texts: Sequence[str]) -> tuple[HostPattern, ...]:
    """Return the hosts that a call names. Raises NetworkError."""
    return tuple(map(HostPattern.parse, texts))


def _hosts(texts: Sequence[str]) -> Sequence[str]:
    """Refuse what is no host before anybody is asked about it."""
    try:
        return tuple(map(str, patterns(texts)))
    except NetworkError as error:
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


def _cwd(value: Any) -> Any:
    return "workspace" if value in {"project", "", "."} else value


ScriptCwd = Annotated[Literal["workspace", "skill"] | None, BeforeValidator(_cwd)]
"""Where it starts; its own folder is read-only. A model says `project`, as other clients do."""


class RunScriptArguments(BaseModel):
    """What a model sends to run a script."""

    skill: str
    path: str
    args: Annotated[list[str], BeforeValidator(as_arguments)] = []
    stdin: str | None = None
    cwd: ScriptCwd = None
    network: Hosts = ()


FoundSkill = tuple[Registry, SkillRef]
"""A loaded skill that a call names."""


@dataclass(frozen=True)
class Programs:
    """Runs programs for tools."""

    equipment: Equipment

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
        registry, ref = found = self.skill(skill, runtime)
        workdir = workdir_of(self.equipment.settings, runtime.config)
        request = script_request(registry, ref, path, args=args, workdir=workdir)
        request = self.equipped(request, found, runtime)
        start = cwd or loaded_skill(runtime, skill).get("cwd")
        by_name = self.equipment.lines.judged_by_name
        request = replace(request, in_skill=start == "skill", hosts=patterns(network), judged_by_name=by_name)
        return self.run(request, stdin, runtime, found, _beside_files)

    def skill(self, name: str, runtime: ThreadRuntime) -> FoundSkill:
        """Return the loaded skill that a call names. Raises ToolException."""
        record = loaded_skill(runtime, name)
        return self.equipment.registry(runtime), SkillRef.of(record)

    def equipped(self, request: ScriptRequest, skill: FoundSkill, runtime: ThreadRuntime) -> ScriptRequest:
        """Return the request of a skill with its packages and its HOME."""
        registry, ref = skill
        needs = registry.needs(ref)
        self._install(needs, ref, runtime)
        request = self.equipment.machine.equip(request, needs)
        trusted = self.equipment.policy.trusts(ref, registry)
        return replace(request, home=self.equipment.kept.home(ref, caller_of(runtime), trusted=trusted))

    def _install(self, needs: Sequence[Need], ref: SkillRef, runtime: ThreadRuntime) -> None:
        """Install what a person approved with this call, and nothing else. Raises InstallError."""
        verdict = (runtime.state.get("verdicts") or {}).get(runtime.tool_call_id or "")
        if verdict is None or verdict["decision"] != "allow" or verdict["by"] != "approval":
            return
        if (install := verdict.get("install")) and verdict.get("skill") == ref.name:
            machine = self.equipment.machine
            packages = [package for package, _ in machine.listed(install)]
            awaited = event(
                "packages_awaited", call_id=runtime.tool_call_id, skill=ref.name, packages=packages
            )
            self.equipment.audit.stream(awaited, runtime.stream_writer)
            machine.install(install, needs, ref)

    def run(
        self,
        request: ScriptRequest,
        stdin: str | None,
        runtime: ThreadRuntime,
        skill: FoundSkill | None,
        explained: Callable[[ScriptResult, ScriptRequest], ScriptResult] = lambda result, _: result,
    ) -> RunOutput:
        """Run a request to its end, tell clients of its output meanwhile, and return what came of it.

        `explained` is asked what a result means.
        """
        tool = "run_command" if request.command else "run_script"
        live = live_output(self.equipment.audit, runtime, tool, self.equipment.cancellation())
        request = self.prepared(request, stdin, runtime)

        def stop() -> Stop | None:
            live.tick()
            return request.stop()

        runner = self.equipment.runner
        policy, running = self.equipment.policy, runtime.config["configurable"][RUNNING_CALL]
        held = policy.held(request.call)
        try:
            if running.is_resumed and not held:
                raise ScriptError("It ran before, and does not run again: what it changed is held no more.")
            if held is None or (held.is_cut_off and not running.is_resumed):
                result = runner.run(replace(request, stop=stop, on_output=live.add))
                held = policy.held(request.call)
        finally:
            live.end()
        if held and isinstance(runner, OwnRunner):
            result = settle(held, runner, request.call, tool, policy.approval)
        loaded = active_skills(runtime.state.get("skills_loaded"))
        result = explained(result, request)
        registry, ref = skill or (None, None)
        result = self.equipment.machine.diagnosed(result, request, ref, loaded)
        if registry and ref and result.learned:
            registry.learn(ref, result.learned)
        return output_of(result, caller_of(runtime))

    def prepared(self, request: ScriptRequest, stdin: str | None, runtime: ThreadRuntime) -> ScriptRequest:
        """Return the request with what its call and its thread bring."""
        thread = runtime.config.get("configurable", {}).get("thread_id")
        attempt = call_attempt(runtime)
        return replace(
            request,
            stdin=stdin,
            call=attempt.key,
            stop=self.stop(),
            writable=self._approved_paths(request, runtime),
            variables={**request.variables, **attempt.variables},
            scratch=self.equipment.kept.scratch(str(thread)) if thread else None,
        )

    def _approved_paths(self, request: ScriptRequest, runtime: ThreadRuntime) -> tuple[Path, ...]:
        """Return the protected paths that a call names, where it was approved: policy asks about each."""
        verdict = (runtime.state.get("verdicts") or {}).get(runtime.tool_call_id)
        if verdict is None or verdict["by"] not in {"approval", "approver"}:
            return ()
        settings = self.equipment.settings
        places = settings.workspace, settings.protected_paths, request.workdir
        if not request.command:
            found = protected_in(request.args, *places)
        else:
            found = self.equipment.lines.protected(request.command, *places, cwd=str(request.cwd or ""))
        return tuple(each.place for each in found if each.place)

    def stop(self) -> Callable[[], Stop | None]:
        """Return what says why a program of the calling node is to end; None while it may go on."""
        cancellation, runtime = self.equipment.cancellation(), get_runtime()
        # LangGraph's RunControl: a server that shuts down asks its runs to drain.
        control = runtime.control if runtime else None

        def stop() -> Stop | None:
            if cancellation.is_requested:
                return "cancelled"
            return "shutdown" if control and control.drain_requested else None

        return stop


def _beside_files(result: ScriptResult, request: ScriptRequest) -> ScriptResult:
    """Say of a script that failed in its skill's folder that an argument lies in the workspace.

    A small real model filled `cwd` in, and told the person to make the file that the script did not find.
    With what to call said first it called that; with why said first it explained it to the person.
    """
    if result.note or not (result.exit_code and request.in_skill and request.workdir.is_dir()):
        return result
    here = {each.name for each in request.workdir.iterdir()}
    if named := next((each for each in request.args if each.removeprefix("./").split("/")[0] in here), None):
        why = f"{named} lies there, and the script did not start there"
        return replace(result, note=f"Call run_script again with cwd workspace: {why}.")
    return result


def output_of(result: ScriptResult, user: str | None) -> RunOutput:
    """Return what a tool returns of a run; `user` is who decided about its changes."""
    artifact = {
        "exit_code": result.exit_code,
        "level": result.level,
        "run_seconds": round(result.seconds, 4),
        "stopped": result.stopped,
        "stdout_bytes": _size(result.stdout) + result.stdout_cut,
        "stderr_bytes": _size(result.stderr) + result.stderr_cut,
        "written": _files(result.written),
        "written_more": result.written_more,
        **({"changes": [*map(_as_json, result.changes)]} if result.changes else {}),
        **({"settled_by": by, "user": user} if (by := result.settled_by) else {}),
        **({"kept": [file._asdict() for file in result.kept]} if result.kept else {}),
        **({"lost": _files(result.lost)} if result.lost else {}),
        **({"notices": list(result.notices)} if result.notices else {}),
    }
    return RunOutput(describe(result), artifact)


def _files(files: Iterable[WrittenFile]) -> list[dict[str, Any]]:
    return [{"path": file.path, "size": file.size} for file in files]


def _as_json(judged: JudgedChange) -> dict[str, Any]:
    """Return a change for a client; the media type of a file is what its name says."""
    change, decision, why = judged
    fields = {name: value for name, value in change._asdict().items() if value != ""}
    if change.digest:
        kind, encoding = guess_type(f"/{change.path}")  # as no `data:` or `http:`
        fields["media_type"] = kind if kind and not encoding else "application/octet-stream"
    return {**fields, "path": readable(change.path), "decision": decision, "why": why}


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
