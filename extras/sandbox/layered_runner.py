"""The runner whose runs write into layers: what a person decides about them later is kept with the layers."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

from skills_agent.sandbox.after import WatchedRunner
from skills_agent.sandbox.closed_network import closed_network_text, open_network_text
from skills_agent.sandbox.copies import make_copies
from skills_agent.sandbox.layer import Layer
from skills_agent.sandbox.overlay import make_layers, mounts_below
from skills_agent.sandbox.probes import Probe
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.network.addresses import IsAllowed, is_public
from skills_agent.skills.scripts.choice import refused
from skills_agent.skills.scripts.controlled import Care, ScriptRun
from skills_agent.skills.scripts.environment import is_granted
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.scripts.shared_folders import shared_with


@dataclass(kw_only=True, eq=False)
class LayeredRunner(WatchedRunner):
    """Runs programs that write into layers over the folders that they may write in.

    A sandbox builds on it: in `_start`, where `care` is `Layers`, it lets the program write into the folders
    that `care.folders` names in the place of the real ones, and into no real one. Overlays are mounted where
    `_mounting` says how; elsewhere these are copies. What is no part of a copy (`Layer.left_out`) it lets the
    program read, but for the agent's own folder.
    """

    workspace: Path
    """A program sees all of it, but for the agent's own folder."""
    closed: Collection[Path] = ()
    """What is hidden of it: secrets, where it is as wide as the home folder."""
    network: Collection[str] = ()
    """The skills that may reach it, as `name` or `name@source`."""
    is_allowed: IsAllowed = is_public
    """Which addresses an open network leads to. For tests, whose servers have no public address."""
    probe_here: "ClassVar[staticmethod[[str | None, Path | None], Probe]]"
    """Returns whether the sandbox works on this machine; arguments as in `find_program`."""
    mounts: ClassVar[bool] = False
    """Whether a program has mounts of its own: then a copy is mounted at the place of the real folder, and on
    it what is no part of it; else there are links to that."""

    def preflight(self, request: ScriptRequest) -> str:
        """Return the level, with the network that is open, and the folders that are shared.

        Raises ScriptError, also where the sandbox does not work.
        """
        self._program()
        super().preflight(request)
        hosts = ", ".join(map(str, request.hosts))
        level = f"{self.level}, network: {hosts}" if hosts else self.level
        if is_granted(self.network, request):
            level = f"{self.level} with network"
        return ", with ".join([level, *map(str, shared_with(self.shared, request))])

    def run(self, request: ScriptRequest) -> ScriptResult:
        """Run as every runner; say what a program wanted of the network that is not open to it."""
        if is_granted(self.network, request):
            return super().run(request)
        if not request.hosts:
            result = super().run(request)
            wanted = "" if result.exit_code == 0 else closed_network_text(result.stderr)
        else:
            from skills_agent.sandbox.proxy import serving  # noqa: PLC0415 - most have none

            with serving(request.hosts, is_allowed=self.is_allowed) as proxy:
                result = super().run(replace(request, proxy=proxy.folder))
            wanted = open_network_text(request.hosts, proxy.refused, result.stderr)
        return replace(result, note=" ".join(filter(None, [result.note, wanted])))

    def why_not(self) -> str:
        """Return why the sandbox does not work here; empty where it does. May run it, once a process."""
        tried = self.probe()
        return "" if tried.program else tried.reason

    def probe(self) -> Probe:
        """Return whether the sandbox works for this runner. May run it, once a process."""
        return self.probe_here(self.environment.get("PATH"), self.workspace)

    def _program(self) -> str:
        tried = self.probe()
        if not tried.is_certain:
            raise ScriptError(
                f"Not run: whether the sandbox works here is not known, for {tried.reason}. Try again; "
                "without a sandbox only `sandbox = off` runs it."
            )
        if tried.program is None:
            raise refused(tried.reason)
        return tried.program

    def _mounting(self) -> tuple[str, ...]:
        """Return the command that mounts layers; empty where none can be, or nobody knows at the moment."""
        return ()

    def _hidden(self, folder: Path) -> Iterable[Path]:  # noqa: ARG002 - the same of all
        """Return what no copy of a folder has, without links on its way."""
        return [each.resolve() for each in self.closed]

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Care]:
        """Let a run write into layers, where there are any, and judge afterwards what it changed there.

        What runs in the background has to see what changes meanwhile, and what runs beside it has to reach
        it: by pipes and sockets in the workspace, which are others in a layer.
        """
        request = run.request
        if request.in_background or self._live:
            with super()._care(run) as care:
                yield care
            return

        def make(folder: Path, real: list[Path]) -> list[Layer]:
            if self._mounting() and not any(any(mounts_below(each)) for each in real):  # which it would hide
                return make_layers(folder, real, run.places.moment)
            workspace, hidden = self.workspace.resolve(), [*chain(*map(self._hidden, real))]
            return make_copies(
                folder, real, run.places.moment, workspace=workspace, closed=hidden, mounts=self.mounts
            )

        with self._store.opened(self._folders(run), make, request.call) as layers:
            uppers = [layer.content for layer in layers.layers.values()]
            began = (uppers[-1].parent / "lower").lstat().st_ctime_ns  # after all copies
            layers.growth = self._growth(run, uppers, began)
            yield layers
            if not request.keeps_nothing:
                layers.look(request.writable, request.call, request.command or request.title)

    def _written_folders(self, request: ScriptRequest) -> list[Path]:
        workdir = request.workdir.absolute()
        if workdir == self.workspace:
            return [workdir]
        return [workdir] if workdir.is_relative_to(self.workspace) else [self.workspace, workdir]
