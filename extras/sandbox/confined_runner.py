"""Run scripts that see the paths of this machine, where there are no mounts of their own: docs/sandbox.md.

A program works in copies of the folders that it may write in. So paths are translated: in its command and its
environment, and back in what it prints and what it leaves in a copy.
"""

import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from skills_agent.sandbox import forwarder, mounts
from skills_agent.sandbox.closed_network import NO_RETRIES
from skills_agent.sandbox.layer import Layer
from skills_agent.sandbox.layered import Layers
from skills_agent.sandbox.layered_runner import LayeredRunner
from skills_agent.sandbox.mounts import OWN_FOLDER
from skills_agent.sandbox.probes import run_trial
from skills_agent.sandbox.products import Products
from skills_agent.sandbox.translated import translate_file, translation
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.controlled import Care, ScriptRun
from skills_agent.skills.scripts.environment import is_granted
from skills_agent.skills.scripts.interpreter import OWN_PYTHON
from skills_agent.skills.scripts.programs import absolute_entries, shim_targets
from skills_agent.skills.scripts.runner import NODE_MODULES, ScriptRequest
from skills_agent.skills.scripts.supervised import ProgramStart

Network = Literal["closed", "proxy", "open"]
"""`proxy`: to the port of this machine that the variable https_proxy of the launcher names."""
NAMES_PATHS: Final = re.compile(
    r"(^|/)(activate[^/]*|CMakeCache\.txt|link\.txt|Makefile[^/]*|[^/]*\.(pth|cmake|make|ninja))$"
)
"""Files that tools write absolute paths into, and obey, beside executable ones."""
NOT_STARTED: Final = (1, 65, 71, 127)
SAID_BY: Final = ("landlock: ", "sandbox-exec: ")
"""What sandboxes end with that did not start a program, and how they begin to say why."""
LIBRARIES: Final = tuple(
    Path(top, name) for top in ("/", "/usr") for name in ("lib", "lib32", "lib64", "libx32", "libexec")
)
FORWARDING: Final = (OWN_PYTHON, "-I", "-S", forwarder.__file__)
NO_BACKGROUND: Final = (
    "Not run: a command in the background works in the workspace itself, and the sandbox of this machine "
    "cannot keep it from what other programs obey there. Run it in the foreground, with a timeout."
)
_TRIAL: Final = (
    "exec 2>&-; read word < secret && exit 10; true > secret && exit 11; chmod 644 secret && exit 12; "
    "true > given/file && chmod 755 given/file && test -x given/file || exit 13; "
)


def try_confined(launcher: Callable[[Path], list[str]], more: str = "") -> "subprocess.CompletedProcess[str]":
    """Have a program try what it must not, and `more`: containers may refuse what a sandbox needs.

    `launcher` returns what is put before a command that may write in a folder. Raises as `run_trial` does.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, secret = Path(folder, "given"), Path(folder, "secret")
        given.mkdir()
        secret.write_text("secret\n")
        return run_trial([*launcher(given), "/bin/sh", "-c", _TRIAL + more], Path(folder))


@dataclass(kw_only=True, eq=False)
class ConfinedRunner(LayeredRunner):
    """Runs each script confined by the kernel, which lets it read and write what it is given.

    A sandbox builds on it, by the function that returns what is put before a command to confine it.
    """

    launcher: "ClassVar[staticmethod[..., list[str]]]"
    """For what may be read, and what may be written, too; its keywords are those of `landlock.launcher`.
    `mark` is of this run alone."""

    def preflight(self, request: ScriptRequest) -> str:
        if request.in_background:
            raise ScriptError(NO_BACKGROUND)
        if request.repository and Products(self.workspace, ()).tracks(f"{OWN_FOLDER}/"):
            raise ScriptError(f"Not run: git would lose {OWN_FOLDER}, hidden here. Ask the user to run it.")
        return super().preflight(request)

    @contextmanager
    def _care(self, run: ScriptRun) -> Iterator[Layers]:
        with super()._care(run) as care:
            layers = cast("Layers", care)  # for nothing runs in the background
            layers.shown = {
                os.fsencode(name): os.fsencode(real)
                for real, copy in layers.folders.items()
                for name in (copy.resolve(), copy)  # the longer first: it may end as the other
            }
            layers.inside = layers.shown
            for real, layer in layers.layers.items() if not run.request.repository else ():  # git keeps all
                _translate_starts(real.resolve(), layer)
            yield layers

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
            workspace,
            *mounts.programs(inner.command[:1], self.workspace, installed),
            *(each.path for each in run.shared),
            *filter(None, (run.folder, request.packages, node and node / NODE_MODULES)),
        ]
        git = (path for path in request.writable if path == request.repository)
        write = [*folders.values(), places.temporary, places.copy, *places.kept, *git]
        # Longer ones count first: what lies there is meant where it is. /tmp is everybody's, and closed.
        places_named = map(str, (*mounts.SYSTEM, *read, *write, *closed, places.temporary.parent))
        same = {path: path for path in places_named}
        inside = {str(name): str(copy) for real, copy in folders.items() for name in (real, real.resolve())}
        translated = translation({**same, "/tmp": str(places.temporary), **inside})  # noqa: S108
        alone = Path(inner.command[0])
        launcher = self.launcher(
            read,
            write,
            closed=closed,
            network=reach,
            programs=[alone, *LIBRARIES, alone.resolve().parent.parent / "libexec"]
            if request.repository
            else None,
            mark=mark_of(run),
        )
        return replace(
            inner,
            workdir=Path(translated(str(inner.workdir.absolute()))),
            command=[
                *((*FORWARDING, str(request.proxy / forwarder.SOCKET)) if request.proxy else ()),
                *launcher,
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
        if code in NOT_STARTED and stderr.startswith(SAID_BY):
            raise ScriptError(f"Cannot start {request.title}: the sandbox failed ({stderr.strip()}).")
        return code


def mark_of(run: ScriptRun) -> str:
    """Return what no other run has."""
    return run.places.temporary.parent.name


def _translate_starts(real: Path, layer: Layer) -> None:
    """Have what programs start from in a copy name the copy, such as the scripts of a virtual environment."""
    translated = translation({str(real): str(layer.view)})
    for path, status in (layer.before or {}).items():
        if stat.S_ISREG(status.st_mode) and (status.st_mode & 0o111 or NAMES_PATHS.search(path)):
            with suppress(OSError):
                translate_file(layer.view / path, lambda old: os.fsencode(translated(os.fsdecode(old))))
