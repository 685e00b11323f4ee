"""Run scripts in a bubblewrap sandbox, under the same supervisor as everywhere: docs/sandbox.md.

Bubblewrap hands on the environment that it was started with: `--setenv` would put secrets on a command line
that every user of the machine can read.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar, Final

from skills_agent.sandbox import mounts
from skills_agent.sandbox.after import After
from skills_agent.sandbox.closed_network import NO_RETRIES
from skills_agent.sandbox.layered import Layers
from skills_agent.sandbox.layered_runner import LayeredRunner
from skills_agent.sandbox.mounts import INSIDE, INSIDE_MODULES, OWN_FOLDER, SYSTEM
from skills_agent.sandbox.overlay import NOT_MOUNTED, binding, mounted, mounting
from skills_agent.sandbox.probes import Probe, probed, run_trial
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.controlled import Care, ScriptRun
from skills_agent.skills.scripts.environment import is_granted
from skills_agent.skills.scripts.programs import absolute_entries, find_program, shim_targets
from skills_agent.skills.scripts.run_folders import RunFolders
from skills_agent.skills.scripts.runner import SANDBOXED, ScriptRequest
from skills_agent.skills.scripts.shared_folders import shared_with
from skills_agent.skills.scripts.supervised import ProgramStart

SIGNAL_OFFSET: Final = 128


def probe(path: str | None = None, workspace: Path | None = None) -> Probe:
    """Run the sandbox, because containers and AppArmor may refuse it; arguments as in `find_program`."""
    return probed("bubblewrap", partial(_tried, path, workspace))


@lru_cache(maxsize=8)
def _tried(path: str | None, workspace: Path | None) -> Probe:
    """Return what a trial shows; one that raises OSError or TimeoutExpired shows nothing, and is not kept."""
    program, elsewhere = find_program("bwrap", path, workspace)
    limiter, _ = find_program("prlimit", path, workspace)
    if not program:
        return Probe(None, f"bubblewrap is not installed ({elsewhere or 'bwrap is not in PATH'})")
    if not limiter:
        return Probe(None, "prlimit is not installed (a program of util-linux)")
    base = mounts.base(network=False)
    shown = mounts.read_only(mounts.programs((limiter,), workspace))
    command = [program, *base.options, *shown, limiter, "--nproc=8", "true"]
    try:
        trial = run_trial(command, pass_fds=base.descriptors)
    finally:
        for descriptor in base.descriptors:
            os.close(descriptor)
    if trial.returncode:
        cause = (trial.stderr.strip().splitlines() or [f"exit code {trial.returncode}"])[-1]
        return Probe(None, f"bubblewrap does not work here: {cause.removeprefix('bwrap: ')}")
    return Probe(program, f"{program} works")


@dataclass(kw_only=True, eq=False)
class BwrapRunner(LayeredRunner):
    """Runs each script in a sandbox of its own."""

    level: ClassVar[str] = SANDBOXED
    probe_here = staticmethod(probe)
    mounts: ClassVar[bool] = True
    temporary_inside: ClassVar[Path | None] = INSIDE
    modules_inside: ClassVar[Path | None] = INSIDE_MODULES

    def _mounting(self) -> tuple[str, ...]:
        with suppress(OSError, subprocess.TimeoutExpired):
            return mounting(self.workspace, self._store.folder)
        return ()

    @contextmanager
    def _skill_folder(
        self,
        request: ScriptRequest,
        places: RunFolders,  # noqa: ARG002 - without a sandbox there is a copy
    ) -> Iterator[Path | None]:
        """Yield the skill's own path, where the sandbox can show its bytes; else where they are."""
        path = request.mounted_at.resolve() if request.mounted_at else request.folder
        yield path if path and self._can_be_shown_at(path, request) else request.folder

    def _can_be_shown_at(self, path: Path, request: ScriptRequest) -> bool:
        if any(each.is_relative_to(path) for each in self._not_to_hide(request)):
            return False
        skills = self.workspace / OWN_FOLDER / "skills"
        if (path.is_relative_to(skills) and not skills.exists()) or (path.is_dir() and any(path.iterdir())):
            return True
        # bubblewrap makes it in a file system of its own, but for folders that it shows.
        shown = (self.workspace, *map(Path, SYSTEM), *mounts.prefixes())
        return not any(map(path.is_relative_to, shown))

    def _not_to_hide(self, request: ScriptRequest) -> Iterator[Path]:
        """Yield what a script needs that the folder of its skill, or of its plugin, may hold at its place."""
        yield from (
            self.workspace,
            *mounts.prefixes(),
            *(each.path for each in shared_with(self.shared, request)),
        )
        yield from filter(None, (request.packages, request.home, request.scratch))
        yield from [Path(request.python)] if request.python else []

    def _start(self, run: ScriptRun, care: Care) -> ProgramStart:
        request, places, folder = run.request, run.places, run.folder
        inner = super()._start(run, care)
        limiter = find_program("prlimit", self.environment.get("PATH"), self.workspace).path or "prlimit"
        behind_shims = shim_targets(absolute_entries(self.environment.get("PATH", "")))
        network = is_granted(self.network, request)
        program = self._program()
        repositories = [path for path in request.writable if path == request.repository]
        if isinstance(care, Layers):
            # A filter of a submodule would run beside git, and write what git obeys.
            real = [*mounts.repositories_of(care.layers), *repositories]
            before = [*self._mounted(care, real if request.repository else None), program]
            work = mounts.work_folders(self.workspace, care.folders)
            large = (folder / path for folder, layer in care.layers.items() for path in layer.large)
            work += mounts.read_only([*large, *mounts.repositories_of(care.layers)])
        else:
            before, kept = [program], care.read_only if isinstance(care, After) else {}
            work = mounts.work_folders(self.workspace, {each: each for each in kept}, kept, folder)
        # git would take for removed what it tracks there and does not see.
        shown = self.workspace / OWN_FOLDER / ("" if request.repository else "skills")
        work += mounts.read_only([] if shown.is_symlink() else [shown])
        base = mounts.base(network=network)  # Nothing below raises: what it opened would stay open.
        hidden = [self.workspace / OWN_FOLDER, *self.closed]
        command = [
            *before,
            *base.options,
            *(mounts.no_programs() if request.repository else ()),
            *("--size", str(self.limits.file_size), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
            *("--bind", str(places.temporary), str(INSIDE)),
            *work,
            *(word for path in repositories for word in ("--bind-try", str(path), str(path))),
            *mounts.hidden(hidden[1:]),
            *mounts.read_only(
                map(Path, (inner.command[0], limiter, *([sys.executable] if request.proxy else [])))
                if request.repository
                else mounts.programs((inner.command[0], limiter), self.workspace, behind_shims)
            ),
            *mounts.read_only([request.packages] if request.packages else []),
            *mounts.node_modules(request.node_packages),
            *mounts.proxy_places(request.proxy),
            *(("--ro-bind", str(request.folder), str(folder)) if folder else ()),
            *mounts.read_only(each.path for each in run.shared if not each.is_writable),
            *(word for place in places.kept for word in ("--bind", str(place), str(place))),
            *(word for place in hidden if place.is_dir() for word in ("--remount-ro", str(place))),
            *("--remount-ro", "/", "--chdir", str(inner.workdir.absolute()), "--"),
            *(limiter, f"--nproc={self.limits.processes}", "--"),
            *(mounts.forwarding() if request.proxy else ()),
            *inner.command,
        ]
        more = {} if network or request.proxy else dict(NO_RETRIES)
        return replace(
            inner,
            workdir=request.start,
            command=command,
            environment={**more, **inner.environment},
            # The monitor outside, the first one inside, and the forwarder.
            processes=inner.processes + 2 + bool(request.proxy),
            wrapped=True,
            descriptors=base.descriptors,
        )

    def _mounted(self, care: Layers, inert: Sequence[Path] | None) -> list[str]:
        """Return what mounts layers and makes folders inert, as far as this machine can, before a program."""
        if not (copies := [layer.content for layer in care.layers.values() if layer.before is not None]):
            return [*self._mounting(), *mounted(care.layers.values(), inert)]
        command: tuple[str, ...] = ()
        if inert is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                command = binding(self._store.folder)
        return [*command, *mounted([], [*copies, *(inert or ())])] if command else []

    def _exit_code(self, code: int, request: ScriptRequest, stderr: str) -> int:
        if code == 1 and stderr.startswith(("bwrap: ", NOT_MOUNTED)):
            raise ScriptError(f"Cannot start {request.title}: the sandbox failed ({stderr.strip()}).")
        is_signal = SIGNAL_OFFSET < code < SIGNAL_OFFSET + signal.NSIG  # 255 is what ssh ends with
        return SIGNAL_OFFSET - code if is_signal else code
