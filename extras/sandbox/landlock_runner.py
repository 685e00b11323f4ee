"""Run scripts confined by Landlock, where bubblewrap gets no namespaces: docs/sandbox.md.

A program sees the paths of this machine, and works in copies of the folders that it may write in. So paths
are translated: in its command and its environment, and back in what it prints and what it leaves in a copy.
"""

import os
import re
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final, cast

from skills_agent.sandbox import forwarder, landlock, mounts
from skills_agent.sandbox.closed_network import NO_RETRIES
from skills_agent.sandbox.landlock import Network
from skills_agent.sandbox.layer import Layer
from skills_agent.sandbox.layered import Layers
from skills_agent.sandbox.layered_runner import LayeredRunner, Probe
from skills_agent.sandbox.mounts import OWN_FOLDER
from skills_agent.sandbox.translated import translate_file, translate_tree, translation
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.scripts.controlled import Care, ScriptRun
from skills_agent.skills.scripts.environment import is_granted
from skills_agent.skills.scripts.interpreter import OWN_PYTHON
from skills_agent.skills.scripts.programs import absolute_entries, shim_targets
from skills_agent.skills.scripts.runner import LANDLOCKED, NODE_MODULES, ScriptRequest
from skills_agent.skills.scripts.supervised import ProgramStart

MAX_ENTRIES: Final = 5_000
"""Of a folder in which something is closed: each of the others has a rule of its own."""
LIBRARIES: Final = tuple(
    Path(top, name) for top in ("/", "/usr") for name in ("lib", "lib32", "lib64", "libx32", "libexec")
)
NAMES_PATHS: Final = re.compile(
    r"(^|/)(activate[^/]*|CMakeCache\.txt|link\.txt|Makefile[^/]*|[^/]*\.(pth|cmake|make|ninja))$"
)
"""Files that tools write absolute paths into, and obey, beside executable ones."""
FORWARDING: Final = (OWN_PYTHON, "-I", "-S", forwarder.__file__)
NO_BACKGROUND: Final = (
    "Not run: a command in the background works in the workspace itself, and Landlock cannot keep it from "
    "what other programs obey there. Run it in the foreground, with a timeout."
)


@dataclass(kw_only=True, eq=False)
class LandlockRunner(LayeredRunner):
    """Runs each script confined by Landlock and a filter of system calls."""

    level: ClassVar[str] = LANDLOCKED

    def preflight(self, request: ScriptRequest) -> str:
        if request.in_background:
            raise ScriptError(NO_BACKGROUND)
        return super().preflight(request)

    def probe(self) -> Probe:
        return landlock.probe()

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Layers]:
        with super()._care(run) as care:
            layers = cast("Layers", care)  # for nothing runs in the background
            layers.shown = {os.fsencode(copy): os.fsencode(real) for real, copy in layers.folders.items()}
            since = time.time_ns() - 50_000_000  # the clock of files may be as late as that
            for real, layer in layers.layers.items() if not run.request.is_alone else ():  # git keeps all
                _translate_starts(real.resolve(), layer)
            yield layers
            for copy in layers.folders.values():
                translate_tree(copy, layers.shown, since)

    def _start(self, run: ScriptRun, care: Care) -> ProgramStart:
        request, places, folders = run.request, run.places, cast("Layers", care).folders
        inner = super()._start(run, care)
        reach: Network = (
            "open" if is_granted(self.network, request) else "proxy" if request.proxy else "closed"
        )
        installed = shim_targets(absolute_entries(self.environment.get("PATH", "")))
        workspace, node = self.workspace.resolve(), request.node_packages
        closed = {workspace / OWN_FOLDER, *(each.resolve() for each in self.closed)}
        read = [
            *landlock.system_paths(),
            *mounts.programs(inner.command[:1], self.workspace, installed),
            *(each.path for each in run.shared),
            *filter(None, (run.folder, request.packages, node and node / NODE_MODULES)),
        ]
        git = (path for path in request.writable if request.is_alone and path.name == GIT)
        write = [*folders.values(), places.temporary, places.copy, *places.kept, *git]
        alone = [Path(inner.command[0]), *LIBRARIES] if request.is_alone else None
        # Longer ones count first: what lies there is meant where it is. /tmp is everybody's, and closed.
        same = {str(path): str(path) for path in (*read, *write, *closed, places.temporary.parent)}
        inside = {str(name): str(copy) for real, copy in folders.items() for name in (real, real.resolve())}
        translated = translation({**same, "/tmp": str(places.temporary), **inside})  # noqa: S108
        return replace(
            inner,
            workdir=Path(translated(str(inner.workdir.absolute()))),
            command=[
                *((*FORWARDING, str(request.proxy / forwarder.SOCKET)) if request.proxy else ()),
                *landlock.launcher(
                    [*read, *_around(workspace, closed)], write, network=reach, programs=alone
                ),
                *map(translated, inner.command),
            ],
            environment={
                "GIT_CONFIG_NOSYSTEM": "1",  # git fails where its settings are there and closed
                **(NO_RETRIES if reach == "closed" else {}),
                **{name: translated(value) for name, value in inner.environment.items()},
            },
            processes=inner.processes + 1 + bool(request.proxy),
            wrapped=True,
        )

    def _exit_code(self, code: int, request: ScriptRequest, stderr: str) -> int:
        if code in {1, 127} and stderr.startswith("landlock: "):
            raise ScriptError(f"Cannot start {request.title}: the sandbox failed ({stderr.strip()}).")
        return code


def _translate_starts(real: Path, layer: Layer) -> None:
    """Have what programs start from in a copy name the copy, such as the scripts of a virtual environment."""
    translated = translation({str(real): str(layer.view)})
    for path, status in (layer.before or {}).items():
        if (status.st_mode & 0o111 and stat.S_ISREG(status.st_mode)) or NAMES_PATHS.search(path):
            with suppress(OSError):
                translate_file(layer.view / path, lambda old: os.fsencode(translated(os.fsdecode(old))))


def _around(folder: Path, closed: Collection[Path]) -> Iterator[Path]:
    """Yield what is in a folder but for what is closed: itself, where nothing is.

    Landlock can close nothing in an open folder. What a link leads to is open where that itself is.
    """
    if folder not in closed and not any(folder in path.parents for path in closed):
        yield folder
    elif folder not in closed:
        with os.scandir(folder) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                if not entry.is_symlink():
                    yield from _around(folder / entry.name, closed)
