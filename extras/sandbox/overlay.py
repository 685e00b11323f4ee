"""Folders as a run sees and changes them while the real ones stay as they are: overlayfs in a namespace.

LAYER/ lower -> the real folder
       upper/ work/     what is written
       merged/          what is seen: mounted for the run alone
"""

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from skills_agent.sandbox.layer import Layer
from skills_agent.skills.confined import is_in
from skills_agent.skills.scripts.environment import is_root
from skills_agent.skills.scripts.programs import find_program
from skills_agent.skills.trees import remove_tree

TRIAL_SECONDS: Final = 30
NOT_MOUNTED: Final = "skills-agent: no layer: "
_MOUNT: Final = f"""\
failed() {{ echo "{NOT_MOUNTED}$why" >&2; exit 1; }}
n=$1 options=lowerdir=lower,upperdir=upper,workdir=work,userxattr$2; shift 2
while [ "$n" -gt 0 ]; do
  why=$(cd "$1" && "$0" -t overlay overlay -o "$options" merged 2>&1) || failed
  shift; n=$((n-1))
done
n=$1; shift
while [ "$n" -gt 0 ]; do
  why=$("$0" --bind "$1" "$1" 2>&1 && "$0" -o remount,bind,noexec "$1" 2>&1) || failed
  shift; n=$((n-1))
done
exec "$@"
"""
"""Mounts by the program `$0` the layers that it is given, and folders of which nothing is executed, and
goes on as the program after them. In a layer's own folder all paths are short words: an option of mount has
no room for `,` or `:` of a person's."""
_NAMESPACES: Final = (("--mount",), ("--user", "--map-root-user", "--mount"))
"""A namespace of mounts alone, where that may be had, keeps the owners of files."""


@lru_cache(maxsize=8)
def mounting(path: str | None, workspace: Path, folder: Path) -> tuple[str, ...]:
    """Return the command that mounts layers over a workspace, kept in a folder; empty where none can be.

    It is followed by what `mounted` returns, and a program. Tries it; raises OSError and TimeoutExpired where
    that shows nothing. Linux 5.11 is the first that lets users mount them.
    """
    commands = _commands(path, workspace, workspace)
    return next((each for each in commands if not _failure(each, workspace, folder)), ())


def why_not_mounted(path: str | None, workspace: Path, folder: Path) -> str:
    """Return why no layer is mounted over a workspace; empty where one is. Arguments and errors as above."""
    if any(mounts_below(workspace)):
        return "something is mounted in the workspace"
    if mounting(path, workspace, folder):
        return ""
    if not (commands := _commands(path, workspace, workspace)):
        return "unshare or mount is not installed, or the workspace belongs to another user or group"
    return _failure(commands[-1], workspace, folder).removeprefix(NOT_MOUNTED)


@lru_cache(maxsize=8)
def binding(path: str | None, workspace: Path, folder: Path) -> tuple[str, ...]:
    """Return the command for no layers, but for folders of which nothing is executed; arguments as above."""
    for command in _commands(path, workspace, folder):
        if not _tried([*command, *mounted([], [folder]), "/bin/sh", "-c", ":"]).returncode:
            return command
    return ()


def _commands(path: str | None, workspace: Path, changed: Path) -> list[tuple[str, ...]]:
    """Return the commands that may mount, where what is `changed` belongs to this user."""
    # Outside of the sandbox nothing is found by the PATH of a run: it may have folders of the workspace.
    unshare, mount = (find_program(name, path, workspace).path for name in ("unshare", "mount"))
    if not unshare or not mount:
        return []
    status = changed.stat()
    # In a namespace of users there is one user and one group: what belongs to others cannot be changed.
    is_own = (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    namespaces = [*_NAMESPACES[: is_root()], *_NAMESPACES[1 : 1 + is_own]]
    return [(unshare, *each, "--", "/bin/sh", "-c", _MOUNT, mount) for each in namespaces]


def _tried(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False)  # noqa: S603


def _failure(command: tuple[str, ...], workspace: Path, folder: Path) -> str:
    """Try it; return what it said where that did not work."""
    trial = Path(mkdtemp(prefix="trial-", dir=folder))
    try:
        (layer,) = make_layers(trial, [workspace], 0)
        made = str(layer.view / ".made-in-layer")
        tried = _tried([*command, *mounted([layer]), "/bin/sh", "-c", ': >"$0"', made])
        if not tried.returncode and (layer.content / ".made-in-layer").is_file():
            return ""
        return (tried.stderr.strip().splitlines() or ["unshare failed"])[-1]
    finally:
        remove_tree(trial)


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
    options = "" if inert is None else ",noexec"
    return [str(len(folders)), options, *folders, str(len(places)), *places]


def mounts_below(folder: Path) -> Iterator[Path]:
    """Yield what is mounted beneath a folder: a layer over the folder alone would hide it."""
    folder = folder.resolve()
    with Path("/proc/self/mountinfo").open("rb") as file:
        for line in file:
            path = line.split()[4].decode("unicode_escape").encode("latin-1")
            if path != os.fsencode(folder) and is_in(os.fsdecode(path), str(folder)):
                yield Path(os.fsdecode(path))
