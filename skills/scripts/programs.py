"""Where programs are: in folders of PATH that no repository, no script and no other user can fill.

PATH may hold folders that this user cannot read, so nothing here asks by `Path.exists`, `is_dir` or `glob`.
"""

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable
from functools import cache
from glob import glob
from pathlib import Path
from typing import Final, NamedTuple

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/nix/store")


class ProgramPath(NamedTuple):
    """Where a program is."""

    path: str | None
    elsewhere: str = ""
    """A sentence about where it is, if it is only where it is not taken from."""


def find_program(name: str, path: str | None = None, workspace: Path | None = None) -> ProgramPath:
    """Look for a program by its name or its whole path, and for one that is there only once a process.

    `path` is where programs are searched (as in PATH); None is the PATH of this process. Not taken from:
    folders in the workspace, relative ones (what they mean depends on where the agent was started), and
    those that everybody or another user than root can fill.
    """
    try:
        return ProgramPath(_first(name, path, workspace))
    except LookupError as error:
        return ProgramPath(None, str(error))


def absolute_entries(path: str) -> str:
    """Return a PATH without its relative entries: in a workspace, they would mean folders of it."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if Path(entry).is_absolute())


def path_outside(path: str, workspace: Path | None) -> str:
    """Return the PATH of a program that runs outside of the sandbox: the folders that `find_program` takes.

    What it starts in its turn (`env node`, `ssh`, a browser) is then nothing of the workspace, either.
    """
    entries = filter(os.path.isdir, path.split(os.pathsep))
    return os.pathsep.join(entry for entry in entries if not _objection(Path(entry), workspace))


@cache
def _first(name: str, path: str | None, workspace: Path | None) -> str:
    folders = os.pathsep.join(os.get_exec_path()) if path is None else path
    if "/" in name:
        folders = str(Path(name).parent) if Path(name).is_absolute() else ""
    objection = ""
    for folder in filter(None, without_shims(folders).split(os.pathsep)):
        if place := shutil.which(Path(name).name, path=folder):
            cause = _objection(Path(folder), workspace)
            if not cause and workspace and in_workspace(workspace, Path(place).resolve()):
                cause = "has only a link into the workspace"
            if not cause:
                return place
            objection = objection or f"{name} is only in {folder}, which {cause}."
    raise LookupError(objection)


def shadowed(names: Iterable[str], path: str, workspace: Path | None) -> list[str]:
    """Return of some names those that a folder of the workspace has, where it stands in PATH."""
    folders = [
        each for each in path.split(os.pathsep) if workspace and in_workspace(workspace, Path(each).resolve())
    ]
    return [name for name in names if any(os.path.lexists(f"{folder}/{name}") for folder in folders)]


def _objection(folder: Path, workspace: Path | None) -> str:
    if not folder.is_absolute():
        return "is a relative entry of PATH"
    real = folder.resolve()
    if workspace and (in_workspace(workspace, real) or in_workspace(workspace, folder)):
        return "is in the workspace"
    owners = {0, os.geteuid(), Path("/").stat().st_uid}  # as seen in a container, root may be another
    for each in (real, *real.parents):
        status = each.stat()
        if status.st_uid not in owners:
            return "belongs to another user"
        if status.st_mode & stat.S_IWOTH and (each == real or not status.st_mode & stat.S_ISVTX):
            return "everybody can write to"
    return ""


def in_workspace(workspace: Path, path: Path) -> bool:
    """Return whether a path is in the workspace; what is the system's is not, where the workspace is `/`."""
    root = workspace.resolve()
    is_systems = str(root) == "/" and any(map(path.is_relative_to, SYSTEM))
    return not is_systems and (path.is_relative_to(root) or path.is_relative_to(workspace))


def global_modules(path: str | None = None, workspace: Path | None = None) -> list[Path]:
    """Return the folders that `npm install -g` fills; arguments as in `find_program`."""
    node = find_program("node", path, workspace).path
    prefixes = ["/usr", "/usr/local", *([str(Path(node).parent.parent)] if node else [])]
    folders = (Path(prefix, "lib", "node_modules") for prefix in dict.fromkeys(prefixes))
    return [folder for folder in folders if os.path.isdir(folder)]


def without_shims(path: str) -> str:
    """Return a PATH with the folders of programs that its folders of shims stand for.

    A shim of a version manager (pyenv, rbenv, nodenv, asdf, mise) would ask files of the workspace for the
    version, and call its manager, which a sandbox does not show. This takes the version of the agent's own
    Python, else the user's global one, else the newest.
    """
    entries = [each for entry in path.split(os.pathsep) for each in _behind(entry)]
    return os.pathsep.join(dict.fromkeys(entries))


def shim_targets(path: str) -> list[str]:
    """Return the folders with all versions of the programs that the folders of shims in a PATH stand for."""
    roots = [Path(entry).parent for entry in path.split(os.pathsep) if Path(entry).name == "shims"]
    folders = [root / name for root in roots for name in ("versions", "installs")]
    return [str(folder) for folder in folders if os.path.isdir(folder)]


def _behind(entry: str) -> list[str]:
    """Return the folders that an entry of PATH stands for, the best first; mostly it stands for itself."""
    root = Path(entry).parent
    if Path(entry).name != "shims":
        return [entry]
    try:
        chosen = (root / "version").read_text().split()
    except OSError:
        chosen = []

    def rank(folder: Path) -> tuple[bool, bool, list[tuple[int, str]]]:
        version = folder.parent
        parts = re.findall(r"\d+|\D+", version.name)
        numbers = [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
        return str(version) == sys.base_prefix, version.name in chosen, numbers

    found = (*glob("versions/*/bin", root_dir=root), *glob("installs/*/*/bin", root_dir=root))
    return list(map(str, sorted((root / each for each in found), key=rank, reverse=True))) or [entry]
