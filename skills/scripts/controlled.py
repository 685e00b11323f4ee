"""Run scripts under plain control, which is no sandbox: docs/sandbox.md says what holds."""

import logging
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from shutil import copytree
from threading import BoundedSemaphore
from typing import ClassVar, Final

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.environment import (
    FIXED,
    ScriptLimits,
    inherited_variables,
    secrets_of,
    warn_of_root,
)
from skills_agent.skills.scripts.interpreter import command_for, program_for
from skills_agent.skills.scripts.output import Capture, masks
from skills_agent.skills.scripts.programs import find_program, global_modules, shadowed
from skills_agent.skills.scripts.report import written_since
from skills_agent.skills.scripts.run_folders import RunFolders, run_folders
from skills_agent.skills.scripts.runner import (
    CONTROLLED,
    NODE_MODULES,
    STREAMS,
    HeldRun,
    ScriptRequest,
    ScriptResult,
    Stop,
    WrittenFile,
    slot_of,
)
from skills_agent.skills.scripts.shared_folders import SharedFolder, link_into, shared_with
from skills_agent.skills.scripts.supervised import FLOOD_FACTOR, ProgramStart, SupervisedProgram

logger = logging.getLogger(__name__)

NOT_CHOSEN: Final = "the sandbox is turned off (setting sandbox)"


@dataclass(frozen=True)
class ScriptRun:
    """One run, as its steps share it."""

    request: ScriptRequest
    places: RunFolders
    folder: Path | None
    """The skill's own, as the script sees it; None for a program that belongs to none."""
    shared: Sequence[SharedFolder]
    secrets: Mapping[str, str]

    @property
    def shared_to_write(self) -> list[Path]:
        """Return the shared folders that it may write."""
        return [each.path for each in self.shared if each.is_writable]


class Care:
    """What looks after one run, and at what it did. This one sees nothing: an extra brings another."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        """What the person and the model have to know, in sentences."""
        self.shown: Mapping[bytes, bytes] = {}
        """The paths that are told, by those that the program sees in their place."""

    def over(self, family: Callable[[], list[int]]) -> Stop | None:  # noqa: ARG002
        """Return why a run is to be ended; asked again and again. `family` returns its processes."""
        return None

    def written(self, workdir: Path, moment: int) -> list[WrittenFile]:
        """Return the files that the run wrote into the folder that it worked in, in name order."""
        return written_since(workdir, moment)

    def finished(self, result: ScriptResult) -> ScriptResult:
        """Return the result of the run with what was seen of it; called once, when it is over."""
        return result


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
    unsandboxed: str = NOT_CHOSEN
    """Why there is no sandbox. Where nobody chose that, it is logged before the first run."""
    level: ClassVar[str] = CONTROLLED
    temporary_inside: ClassVar[Path | None] = None
    """Where a script sees its temporary folder; None: where it is."""
    modules_inside: ClassVar[Path | None] = None
    """Where it sees the `node_modules` that is approved for its skill; None: where it is."""

    def __post_init__(self) -> None:
        self.workspace = self.workspace.absolute() if self.workspace else None
        self._slots = BoundedSemaphore(self.max_parallel)
        self._global_modules = global_modules(self.environment.get("PATH"), self.workspace)

    def preflight(self, request: ScriptRequest) -> str:
        """Return the isolation of a run. Raises ScriptError: the sandbox, a program or a file is missing."""
        self._command(request, request.folder)
        if self.level == CONTROLLED:
            warn_of_root()
            self._warned  # noqa: B018 - once
        return self.level

    @cached_property
    def _warned(self) -> None:
        if self.unsandboxed != NOT_CHOSEN:
            logger.warning(
                "scripts run WITHOUT a sandbox: %s. They can read and write whatever this user can "
                "(sandbox = require refuses to run them so)",
                self.unsandboxed,
            )

    def why_not(self) -> str:
        """Return why this is no sandbox."""
        return self.unsandboxed

    def finish_looks(self) -> list[str]:
        """Look at what runs made that were cut off with their agent; return what came of it, in sentences."""
        return []

    def look(self, command: str, call: str) -> list[str]:  # noqa: ARG002
        """Look at what a run under way changed; return what came of it, in sentences."""
        return []

    def held(self, call: str) -> HeldRun | None:  # noqa: ARG002 - it works in the folders themselves
        """Return the run of a call of which a person has not decided about all changes."""
        return None

    def settle(self, call: str, *, applied: bool, by: str, why: str = "") -> ScriptResult:  # noqa: ARG002
        """Apply the changes that a person was asked about, or drop them. Raises ScriptError."""
        raise ScriptError("No changes are held for this call.")

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run to the end, or to the limits. Raises ScriptError when the script cannot be started."""
        level = self.preflight(request)
        for place in (request.workdir, request.start):
            if not place.is_dir():
                raise ScriptError(f"Cannot start {request.title}: there is no folder {place}.")
        shared = shared_with(self.shared, request)
        if request.home:
            link_into(request.home, shared)
        secrets = secrets_of(self.secrets, request, self.environment)
        with (
            slot_of(self._slots, request),
            run_folders(request) as places,
            self._skill_folder(request, places) as folder,
        ):
            run = ScriptRun(request, places, folder, shared, secrets)
            earlier = self.finish_looks()
            with self._care(run) as care:
                tap, instead = request.on_output, {**care.shown, **masks(secrets.values())}
                stdout, stderr = (
                    Capture(self.max_output, instead, partial(tap, stream) if tap else None)
                    for stream in STREAMS
                )
                started = time.monotonic()
                report, stopped = self._carry_out(run, care, stdout, stderr)
                seconds = time.monotonic() - started
            written = care.written(request.workdir, places.moment)
            kept, lost = places.collect(self.temporary_inside or places.temporary, run.shared_to_write)
        ending = _ending(report, request.title)
        exit_code = None
        if isinstance(ending, str):
            stopped = stopped or ending
        elif not stopped:
            exit_code = self._exit_code(ending, request, stderr.text())
        most = self.max_written
        result = ScriptResult(
            exit_code=exit_code,
            stdout=stdout.text(),
            stderr=stderr.text(),
            seconds=seconds,
            stopped=stopped,
            stdout_cut=stdout.cut,
            stderr_cut=stderr.cut,
            level=level,
            written=tuple(written[:most]),
            written_more=max(0, len(written) - most),
            kept=tuple(kept[:most]),
            kept_more=max(0, len(kept) - most),
            lost=tuple(lost[:most]),
            lost_more=max(0, len(lost) - most),
            notices=(*earlier, *care.notices),
            note="" if exit_code == 0 else _advice(request, stderr.text()),
        )
        return care.finished(result)

    def _carry_out(self, run: ScriptRun, care: Care, *streams: Capture) -> tuple[str, Stop | None]:
        """Run the program to its end; return what its supervisor reports, and why it was ended."""
        program = SupervisedProgram(self._start(run, care), *streams)
        try:
            deadline = time.monotonic() + (run.request.timeout or self.timeout)
            flood = FLOOD_FACTOR * self.max_output
            stopped = program.until_end(deadline, flood, run.request.stop, care.over)
        finally:
            program.clean_up()
        return program.report.decode(), stopped

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Care]:  # noqa: ARG002
        """Yield what looks after a run; when the block ends, it has looked at what the run did."""
        yield Care()

    @contextmanager
    def _skill_folder(self, request: ScriptRequest, places: RunFolders) -> Iterator[Path | None]:
        own = request.mounted_at
        if own is not None and not request.in_skill and request.is_unchanged():
            yield own
        elif request.root is None:
            yield request.folder
        else:  # what it writes beside itself ends with the run, and the snapshot stays what it is
            yield Path(copytree(request.root, places.copy / (own or request.root).name, symlinks=True))

    def _start(self, run: ScriptRun, care: Care) -> ProgramStart:  # noqa: ARG002 - for the sandbox
        request, folder = run.request, run.folder
        command = self._command(request, folder)
        return ProgramStart(
            title=request.title,
            command=command,
            workdir=folder / request.skill_inside if folder and request.in_skill else request.start,
            environment=self._variables(run, command[0]),
            rlimits=self.limits.rlimits(request.timeout or self.timeout),
            memory=self.limits.memory,
            processes=self.limits.processes,
            stdin=request.stdin,
        )

    def _variables(self, run: ScriptRun, program: str) -> dict[str, str]:
        request, places = run.request, run.places
        temporary, home = self.temporary_inside or places.temporary, places.home
        if home.is_relative_to(places.temporary):
            home = temporary / home.relative_to(places.temporary)
        own = {**FIXED, **request.variables, "HOME": str(home), "TMPDIR": str(temporary)}
        own |= {"SKILL_SCRATCH": str(places.scratch)} if places.scratch else {}
        own |= _of_other_clients(request, run.folder)
        environment = {"LANG": "C.UTF-8", **inherited_variables(self.environment), **run.secrets, **own}
        node = request.node_packages
        modules = [self.modules_inside or node / NODE_MODULES] if node else []
        if packages := [*modules, *self._global_modules]:
            environment["NODE_PATH"] = os.pathsep.join(map(str, packages))
        path = [
            *([str(request.packages / "bin")] if request.packages else []),
            environment.get("PATH", ""),
            # The last: what a package brings is called like much else (`which`, `uuid`).
            *(str(module / ".bin") for module in modules),
        ]
        joined = os.pathsep.join(filter(None, path))
        if (named := request.judged_by_name) and (names := shadowed(named, joined, self.workspace)):
            self._add_systems_own(names, places.temporary / ".system")
            joined = f"{temporary / '.system'}{os.pathsep}{joined}"
        if request.repository:
            joined = str(Path(program).parent)
        return {**environment, "PATH": joined} if joined else environment

    def _add_systems_own(self, names: Iterable[str], folder: Path) -> None:
        """Fill a folder of PATH, before those of the project, with the system's programs of some names."""
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

    def _command(self, request: ScriptRequest, folder: Path | None) -> list[str]:
        path = self.environment.get("PATH")
        if request.script is None:
            name, *args = request.args or ("",)
            return [program_for(name, path, self.workspace), *args]
        script = request.script.absolute()
        *program, _ = command_for(script, path, self.workspace, request.packages, request.python)
        inside = script.relative_to(request.folder or script.parent)
        return [*program, str((folder or script.parent) / inside), *request.args]

    def _exit_code(self, code: int, request: ScriptRequest, stderr: str) -> int:  # noqa: ARG002
        return code


def _advice(request: ScriptRequest, stderr: str) -> str:
    """Say what may help a program that failed; empty where nothing is known."""
    errors = stderr.lower()
    places = [str(place) for place in (request.mounted_at, request.root) if place]
    refused = "permission denied" in errors and any(place in stderr for place in places)
    advice = f"Read-only: skill, .git, shared packages. Write elsewhere in {request.workdir}, or to $HOME."
    return advice if refused or "read-only file system" in errors else ""


def _of_other_clients(request: ScriptRequest, folder: Path | None) -> dict[str, str]:
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
