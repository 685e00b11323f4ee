"""Folders as a run sees and changes them while the real ones stay as they are: overlayfs in a namespace.

LAYER/ lower -> the real folder
       upper/ work/     what is written
       merged/          what is seen: mounted for the run alone
"""

import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from skills_agent.sandbox.layer import Layer
from skills_agent.sandbox.probes import run_trial
from skills_agent.skills.scripts.environment import is_root
from skills_agent.skills.scripts.supervised import small_program

NOT_MOUNTED: Final = "skills-agent: no layer: "
MOUNTING: Final = small_program("mounting", os.path.dirname(__file__))  # noqa: PTH120
"""The command of mounting.py."""


@lru_cache(maxsize=8)
def mounting(workspace: Path, folder: Path) -> tuple[str, ...]:
    """Return the command that mounts layers over a workspace, kept in a folder; empty where none can be.

    It is followed by what `mounted` returns, and a program. Tries it; raises OSError and TimeoutExpired where
    that shows nothing. Linux 5.11 is the first that lets users mount them.
    """
    return next((each for each in _commands(workspace) if not _failure(each, workspace, folder)), ())


def why_not_mounted(workspace: Path, folder: Path) -> str:
    """Return why no layer is mounted over a workspace; empty where one is. Arguments and errors as above."""
    if any(mounts_below(workspace)):
        return "something is mounted in the workspace"
    if mounting(workspace, folder):
        return ""
    if not (commands := _commands(workspace)):
        return "the workspace belongs to another user or group"
    return _failure(commands[-1], workspace, folder).removeprefix(NOT_MOUNTED)


@lru_cache(maxsize=8)
def binding(folder: Path) -> tuple[str, ...]:
    """Return the command for no layers, but for folders of which nothing is executed; errors as above."""
    for command in _commands(folder):
        if not run_trial([*command, *mounted([], [folder]), "/bin/sh", "-c", ":"]).returncode:
            return command
    return ()


def _commands(changed: Path) -> list[tuple[str, ...]]:
    """Return the commands that may mount, where what is `changed` belongs to this user, the best first."""
    status = changed.stat()
    # In a namespace of users there is one user and one group: what belongs to others cannot be changed.
    is_own = (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    # A namespace of mounts alone, where that may be had, keeps the owners of files.
    return [*[(*MOUNTING, "mounts")] * is_root(), *[(*MOUNTING, "users")] * is_own]


def _failure(command: tuple[str, ...], workspace: Path, folder: Path) -> str:
    """Try it; return what it said where that did not work."""
    with TemporaryDirectory(prefix="trial-", dir=folder, ignore_cleanup_errors=True) as trial:
        (layer,) = make_layers(Path(trial), [workspace], 0)
        made = str(layer.view / ".made-in-layer")
        tried = run_trial([*command, *mounted([layer]), "/bin/sh", "-c", ': >"$0"', made])
        if not tried.returncode and (layer.content / ".made-in-layer").is_file():
            return ""
        return (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]


def make_layers(folder: Path, lowers: Iterable[Path], moment: int) -> list[Layer]:
    """Make a layer over each of these folders; `moment` as in `RunFolders`. Raises OSError."""
    layers = []
    for number, lower in enumerate(lowers):
        place = folder / str(number)
        for name in ("upper", "work", "merged"):
            (place / name).mkdir(parents=True, mode=0o700)
        (place / "upper").chmod(stat.S_IMODE(lower.stat().st_mode))
        (place / "lower").symlink_to(lower)
        layers.append(layer_in(place, moment))
    return layers


def layer_in(place: Path, moment: int = 0) -> Layer:
    """Return the layer that is kept in a folder. Raises OSError."""
    return Layer((place / "lower").readlink(), place / "upper", moment)


def mounted(layers: Iterable[Layer], inert: Iterable[Path] | None = None) -> list[str]:
    """Return the arguments of `mounting` for some layers.

    `inert`: folders as they are; nothing in them and in the layers can be executed, where this is not None.
    """
    folders = [str(layer.content.parent) for layer in layers]
    places = [str(path) for path in inert or () if path.is_dir()]
    kind = "layers" if inert is None else "inert"
    return [kind, str(len(folders)), *folders, str(len(places)), *places]


def mounts_below(folder: Path) -> Iterator[Path]:
    """Yield what is mounted beneath a folder: a layer over the folder alone would hide it."""
    top = os.fsencode(folder.resolve()).rstrip(b"/") + b"/"
    with Path("/proc/self/mountinfo").open("rb") as file:
        for line in file:
            path = line.split()[4].decode("unicode_escape").encode("latin-1")
            if path.startswith(top) and path != top:
                yield Path(os.fsdecode(path))
