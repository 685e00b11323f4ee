"""Run scripts under plain control, which is no sandbox: docs/sandbox.md says what holds."""

import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from shutil import copytree
from threading import BoundedSemaphore, Lock
from typing import ClassVar, Final

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.scripts.environment import (
    FIXED,
    ScriptLimits,
    inherited_variables,
    secrets_of,
    uv_cache,
    warn_of_root,
)
from skills_agent.skills.scripts.growth import Growth, Written
from skills_agent.skills.scripts.interpreter import command_for, program_for
from skills_agent.skills.scripts.output import Capture
from skills_agent.skills.scripts.programs import find_program, global_modules, shadowed
from skills_agent.skills.scripts.protected_files import ProtectedFiles
from skills_agent.skills.scripts.report import written_since
from skills_agent.skills.scripts.run_folders import (
    Collected,
    RunFolders,
    full_home_text,
    over_limit,
    refuse_full,
    run_folders,
)
from skills_agent.skills.scripts.runner import (
    CONTROLLED,
    NODE_MODULES,
    STREAMS,
    ScriptRequest,
    ScriptResult,
    Stop,
    slot_of,
)
from skills_agent.skills.scripts.shared_folders import SharedFolder, link_into, shared_with
from skills_agent.skills.scripts.supervised import FLOOD_FACTOR, ProgramStart, SupervisedProgram
from skills_agent.skills.scripts.unfinished import UnfinishedRuns
from skills_agent.skills.scripts.watch import Watch, shown

logger = logging.getLogger(__name__)

NOT_CHOSEN: Final = "the sandbox is turned off (setting sandbox)"


@dataclass(kw_only=True, eq=False)
class ControlledRunner:
    """Runs each script under a supervisor of its own, and leaves no process of it behind."""

    environment: Mapping[str, str]
    """A script gets PATH, language and time zone of it, and what `secrets` names for its skill."""
    timeout: float = 60
    """Seconds, from the start of the process."""
    max_output: int = 100_000
    """Bytes that are kept of each stream."""
    max_written: int = 50
    """How many written files are listed."""
    max_parallel: int = 4
    limits: ScriptLimits = field(default_factory=ScriptLimits)
    secrets: Mapping[str, Collection[str]] = field(default_factory=dict)
    shared: Mapping[str, Sequence[SharedFolder]] = field(default_factory=dict)
    """Folders outside of the workspace that the scripts of a skill see, by `name` or `name@source`."""
    workspace: Path | None = None
    """Programs are not looked for in it: others may have filled it. None: there is none."""
    protected: tuple[str, ...] = ()
    """What no script may change unasked, beside `PROTECTED`."""
    records: Callable[[], Path] | None = None
    """Returns a folder of the user, where runs leave records for their time: a look follows a crash, too."""
    level: ClassVar[str] = CONTROLLED

    def __post_init__(self) -> None:
        self.workspace = self.workspace.absolute() if self.workspace else None
        self._slots = BoundedSemaphore(self.max_parallel)
        self._files: dict[Path, ProtectedFiles] = {}
        self._named: dict[object, set[Path]] = {}
        """For each run under way, what any run was approved to write since it began."""
        self._lock = Lock()
        self._global_modules = global_modules(self.environment.get("PATH"), self.workspace)
        self._unfinished = UnfinishedRuns(self.records, self.level)

    def preflight(self, request: ScriptRequest) -> str:
        """Return the isolation of a run. Raises ScriptError: the sandbox, a program or a file is missing."""
        self._command(request, request.folder)
        if self.level == CONTROLLED:
            warn_of_root()
        return self.level

    def why_not(self) -> str:
        """Return why this is no sandbox."""
        return NOT_CHOSEN

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run to the end, or to the limits. Raises ScriptError when the script cannot be started."""
        level = self.preflight(request)
        timeout = request.timeout or self.timeout
        for place in (request.workdir, request.start):
            if not place.is_dir():
                raise ScriptError(f"Cannot start {request.title}: there is no folder {place}.")
        refuse_full(request, self.limits)
        shared = shared_with(self.shared, request)
        if request.home:
            link_into(request.home, shared)
        secrets = secrets_of(self.secrets, request, self.environment)
        tap = request.on_output
        stdout, stderr = (
            Capture(self.max_output, secrets.values(), partial(tap, stream) if tap else None)
            for stream in STREAMS
        )
        with (
            slot_of(self._slots, request),
            run_folders(request) as places,
            self._skill_folder(request, places) as folder,
        ):
            allowed = Written(self.limits.written_bytes, self.limits.written_files)
            elsewhere = [each.path for each in shared if each.is_writable]
            grown = [request.workdir, places.temporary, *places.kept, *elsewhere]
            growth = Growth(grown, places.moment, allowed)
            earlier = self.finish_looks()
            with self._watched(request, places.moment) as (watches, beat):
                start = self._start(request, secrets, places, folder, watches)
                started = time.monotonic()
                program = SupervisedProgram(start, stdout, stderr)
                try:
                    flood = FLOOD_FACTOR * self.max_output

                    def stop() -> Stop | None:
                        beat()
                        return request.stop()

                    stopped = program.until_end(started + timeout, flood, stop, growth)
                finally:
                    program.clean_up()
                seconds = time.monotonic() - started
            written = written_since(request.workdir, places.moment)
            outside = places.collect(self._temporary_inside(places), elsewhere)
        ending = _ending(program.report.decode(), request.title)
        exit_code = None
        if isinstance(ending, str):
            stopped = stopped or ending
        elif not stopped:
            exit_code = self._exit_code(ending, request, stderr.text())
        return ScriptResult(
            exit_code=exit_code,
            stdout=stdout.text(),
            stderr=stderr.text(),
            seconds=seconds,
            stopped=stopped,
            stdout_cut=stdout.cut,
            stderr_cut=stderr.cut,
            level=level,
            written=tuple(written[: self.max_written]),
            written_more=max(0, len(written) - self.max_written),
            kept=tuple(outside.kept[: self.max_written]),
            kept_more=max(0, len(outside.kept) - self.max_written),
            lost=tuple(outside.lost[: self.max_written]),
            lost_more=max(0, len(outside.lost) - self.max_written),
            notices=(
                *earlier,
                *(notice for watch in watches for notice in watch.notices),
                *self._full(request, outside),
            ),
            note="" if exit_code == 0 else self._advice(request, stderr.text()),
        )

    def _full(self, request: ScriptRequest, outside: Collected) -> list[str]:
        """Say it at once where the next run will be refused."""
        if request.home is None or not outside.kept or not (size := over_limit(request.home, self.limits)):
            return []
        return [f"The next script is refused: {full_home_text(request, size)}"]

    @contextmanager
    def _watched(
        self, request: ScriptRequest, moment: int
    ) -> Iterator[tuple[list[Watch], Callable[[], object]]]:
        """Watch over the protected files of every folder that the script writes in.

        What other runs of this agent may write is not taken for this one's. Yields also what is to be called
        again and again during the run.
        """
        # A `.git` is git's own: what another run makes of it meanwhile is put aside all the same.
        writable = [path for path in request.writable if request.is_alone or GIT not in path.parts]
        me, mine = object(), {path for path in writable if path.name != GIT}
        with self._lock:
            for others in self._named.values():
                others.update(mine)
            self._named[me] = mine.union(*self._named.values())
        watches: list[Watch] = []
        try:
            with ExitStack() as stack:
                shared = [each.path for each in shared_with(self.shared, request) if each.is_writable]
                for folder in dict.fromkeys([*self._written_folders(request), *shared]):
                    stack.enter_context(self._empty_repository(folder))
                    watches.append(Watch(folder, self._files_of(folder), writable))
                beats = [
                    stack.enter_context(
                        self._unfinished.noted(watch.folder, moment, watch.allowed, watch.before)
                    )
                    for watch in watches
                ]
                try:
                    yield watches, lambda: [beat() for beat in beats]
                finally:
                    with self._lock:
                        named = self._named[me].copy()
                    for watch in watches:
                        self._look_again(watch, moment, named.union(writable))
        finally:
            with self._lock:
                del self._named[me]

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent; return what came of it, in sentences."""
        notices: list[str] = []
        for run in self._unfinished.cut_off():
            if not run.folder.is_dir():
                continue
            allowed = [run.folder / path for path in run.allowed]
            watch = Watch(run.folder, self._files_of(run.folder), allowed, run.before)
            with self._lock:
                named = set(allowed).union(*self._named.values())
            made = watch.made_since(run.moment, named)
            young = list(filter(run.is_younger, made))
            if old := [path for path in made if path not in young]:
                text = (
                    f"A script that was cut off with the agent made {shown(old)}, which other programs obey."
                )
                watch.notices.append(f"{text} {self._deal_with(old, watch)}")
            if young:
                watch.notices.append(
                    f"Since a script was cut off with the agent, {shown(young)} came or changed in "
                    f"{run.folder}. Other programs obey it: look at what is in it, if that was not you."
                )
            self._look_for_ways(watch, run.moment, run.last)
            notices += watch.notices
        for notice in notices:
            logger.warning(notice)
        return notices

    def _files_of(self, folder: Path) -> ProtectedFiles:
        if folder not in self._files:
            # What begins with `/` is meant at the top of the workspace.
            at_top = folder == (self.workspace or folder)
            more = [entry for entry in self.protected if at_top or not entry.startswith("/")]
            self._files[folder] = ProtectedFiles(folder, more, ".agent" if at_top else "")
        return self._files[folder]

    def _written_folders(self, request: ScriptRequest) -> list[Path]:
        workdir = request.workdir.absolute()
        folder = self.workspace or workdir
        is_in = workdir.is_relative_to(folder) and not workdir.is_relative_to(folder / ".agent")
        return [folder] if is_in else [folder, workdir]

    def _empty_repository(self, folder: Path) -> AbstractContextManager[object]:  # noqa: ARG002
        return nullcontext()

    def _look_again(self, watch: Watch, moment: int, named: Iterable[Path]) -> None:
        if made := watch.made_since(moment, named):
            outcome = self._deal_with(made, watch)
            text = f"The script made {shown(made)}, which other programs obey in this folder. {outcome}"
            watch.notices.append(text)
        self._look_for_ways(watch, moment)
        for notice in watch.notices:
            logger.warning(notice)

    def _look_for_ways(self, watch: Watch, moment: int, last: float = inf) -> None:
        """Look for what leads a person's programs out of the folder, or to other code than they see."""
        if links := watch.links_out(self.workspace, moment, last):
            named = shown([f"{path} (to {target})" for path, target in links.items()])
            watch.notices.append(
                f"The script made links out of the folder: {named}. {self._remove(links, watch)}"
            )
        if cached := watch.cached_since(moment):
            self._remove(cached, watch)

    def _remove(self, paths: Iterable[str], watch: Watch) -> str:
        try:
            watch.remove(self.workspace or watch.folder, paths)
        except OSError as error:
            reason = error.strerror
            return f"They could not be removed ({reason}). Look where they lead before you write there."
        return "They were removed."

    def _deal_with(self, made: Sequence[str], watch: Watch) -> str:  # noqa: ARG002
        return "Look at what is in it before you open the folder."

    @contextmanager
    def _skill_folder(self, request: ScriptRequest, places: RunFolders) -> Iterator[Path | None]:
        own = request.mounted_at
        if own is not None and not request.in_skill and request.is_unchanged():
            yield own
        elif request.root is None:
            yield request.folder
        else:  # what it writes beside itself ends with the run, and the snapshot stays what it is
            yield Path(copytree(request.root, places.copy / (own or request.root).name, symlinks=True))

    def _start(
        self,
        request: ScriptRequest,
        secrets: Mapping[str, str],
        places: RunFolders,
        folder: Path | None,
        watches: Sequence[Watch],  # noqa: ARG002 - for the sandbox
    ) -> ProgramStart:
        command = self._command(request, folder)
        own = {**FIXED, **request.variables, **self._own_folders(places), **_places(request, folder)}
        environment = {"LANG": "C.UTF-8", **inherited_variables(self.environment), **secrets, **own}
        if request.packages:
            programs = (str(request.packages / "bin"), environment.get("PATH", ""))
            environment["PATH"] = os.pathsep.join(filter(None, programs))
        if modules := self._modules_inside(request):
            # The last: what a package brings is called like much else (`which`, `uuid`).
            programs = (environment.get("PATH", ""), str(modules / ".bin"))
            environment["PATH"] = os.pathsep.join(filter(None, programs))
        if packages := [*([modules] if modules else []), *self._global_modules]:
            environment["NODE_PATH"] = os.pathsep.join(map(str, packages))
        if names := shadowed(request.judged_by_name, environment.get("PATH", ""), self.workspace):
            programs = (self._systems_own(names, places), environment["PATH"])
            environment["PATH"] = os.pathsep.join(programs)
        if request.is_alone:
            environment["PATH"] = str(Path(command[0]).parent)
        program = Path(command[0]).name
        if program == "uv" and (cache := uv_cache(self.environment)):
            environment["UV_CACHE_DIR"] = cache
        return ProgramStart(
            title=request.title,
            command=command,
            workdir=folder / request.skill_inside if folder and request.in_skill else request.start,
            environment=environment,
            rlimits=self.limits.rlimits(request.timeout or self.timeout),
            memory=self.limits.memory,
            processes=self.limits.processes,
            stdin=request.stdin,
        )

    def _own_folders(self, places: RunFolders) -> dict[str, str]:
        """Return the variables that name the folders of a run, as the script sees them."""
        inside = self._temporary_inside(places)
        home = places.home
        if home.is_relative_to(places.temporary):
            home = inside / home.relative_to(places.temporary)
        scratch = {"SKILL_SCRATCH": str(places.scratch)} if places.scratch else {}
        return {"HOME": str(home), "TMPDIR": str(inside), **scratch}

    def _systems_own(self, names: Iterable[str], places: RunFolders) -> str:
        """Return a folder of PATH, before those of the project, with the system's programs of some names."""
        folder = places.temporary / ".system"
        folder.mkdir()
        for name in names:
            found = find_program(name, self.environment.get("PATH"), self.workspace).path
            if found:
                (folder / name).symlink_to(found)
                continue
            (folder / name).write_text(
                f"#!/bin/sh\necho 'Only the project has {name}: give its path.' >&2; exit 127\n"
            )
            (folder / name).chmod(0o700)
        return str(self._temporary_inside(places) / folder.name)

    def _temporary_inside(self, places: RunFolders) -> Path:
        """Return where the script sees its temporary folder."""
        return places.temporary

    def _modules_inside(self, request: ScriptRequest) -> Path | None:
        """Return where a script sees the `node_modules` that is approved for its skill; None without one."""
        return request.node_packages / NODE_MODULES if request.node_packages else None

    def _command(self, request: ScriptRequest, folder: Path | None) -> list[str]:
        if request.script is None:
            name, *args = request.args or ("",)
            return [program_for(name, self.environment.get("PATH"), self.workspace), *args]
        script = request.script.absolute()
        path = self.environment.get("PATH")
        *program, _ = command_for(script, path, self.workspace, request.packages, request.python)
        inside = script.relative_to(request.folder or script.parent)
        return [*program, str((folder or script.parent) / inside), *request.args]

    def _exit_code(self, code: int, request: ScriptRequest, stderr: str) -> int:  # noqa: ARG002
        return code

    def _advice(self, request: ScriptRequest, stderr: str) -> str:
        """Say what may help a program that failed; empty where nothing is known."""
        errors = stderr.lower()
        places = [str(place) for place in (request.mounted_at, request.root) if place]
        refused = "permission denied" in errors and any(place in stderr for place in places)
        if not refused and "read-only file system" not in errors:
            return ""
        closed = (
            "The skill's folder is read-only, and so are paths that other programs obey (.vscode, ...), and "
            ".git but for run_command with one git command by itself."
        )
        return f"{closed} Write elsewhere in the workspace ({request.workdir}), or to $HOME."


def _places(request: ScriptRequest, folder: Path | None) -> dict[str, str]:
    """Return the variables that scripts written for other clients find their skill and the project by."""
    project = {"CLAUDE_PROJECT_DIR": str(request.workdir)}
    if folder is None:
        return project
    own, plugin = str(folder / request.skill_inside), str(request.plugin or folder)
    return project | {"SKILL_DIR": own, "CLAUDE_SKILL_DIR": own, "CLAUDE_PLUGIN_ROOT": plugin}


def _ending(report: str, title: str) -> int | Stop:
    match report.split():
        case ["started", _, "exit", code]:
            return int(code)
        case ["started", _, "memory" | "processes" as limit]:
            return limit
        case ["started", _, "error", number, *_]:
            raise ScriptError(f"Cannot start {title}: {os.strerror(int(number))}.")
        case ["started", _]:  # and no line after it: the script killed its supervisor
            return -signal.SIGKILL
        case _:
            raise ScriptError(f"Cannot start {title}: its supervisor did not start.")
