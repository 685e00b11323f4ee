"""Where git works: a `.git`, or what the `.git` file of a submodule or of a linked worktree points at.

Anybody can write such a file. It counts where it stays beneath one top, goes through no link, and what it
points at points back: see gitrepository-layout(5), `core.worktree` in gitsubmodules(7), and git-worktree(1).
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.scripts.programs import find_program
from skills_agent.skills.text import one_line

_MAX_READ: Final = 100_000
_MAX_SHOWN: Final = 200
_WORKTREE: Final = re.compile(r'(?mi)^\s*worktree\s*=\s*"?([^"\n]*?)"?\s*$')
_RUNS_PROGRAMS: Final = re.compile(
    r"(?im)(?:^|\])\s*(alternateRefsCommand|clean|cmd|command|defaultKeyCommand|diffFilter|driver|external|gitProxy"
    r"|helper|\w*Hook|path|process|program|receivepack|smudge|textconv|update|uploadpack|vcs)\s*="
)
"""Settings of a repository that git runs, or reads more settings from, and that `_OFF` cannot turn off: what
stands before them may be any name, as in `filter.x.clean`."""
_FILTER: Final = re.compile(r"(?m)^[^#\n]*\sfilter=(\S+)")
"""In a file of attributes: see gitattributes(5)."""
_RUNS_IN_TODO: Final = re.compile(r"(?m)^\s*(exec|x)\s")
_READ: Final = {"config": _RUNS_PROGRAMS, "config.worktree": _RUNS_PROGRAMS, "git-rebase-todo": _RUNS_IN_TODO}
_GITLINK: Final = b"\0\0\xe0\0"
"""The mode of a repository in an index: see gitformat-index(5)."""


class Repository(NamedTuple):
    """A repository as one folder has it; absolute paths, links resolved."""

    work_tree: Path
    git_dir: Path
    common: Path
    """Where its objects and references are: git writes here, and in `git_dir`, which lies in it."""


def repository_at(folder: Path, top: Path) -> Repository:
    """Return the repository of a folder; perhaps to be made. Raises ScriptError for an odd `.git`."""
    git = folder / GIT
    if git.is_symlink() or not git.is_file():
        if git.is_symlink() or (git.exists() and not git.is_dir()):
            raise _odd(git, top, "is neither a folder nor a file")
        return Repository(folder, git, git)
    kind, _, named = _text(git).partition(":")
    git_dir = _normal(folder, named.strip())
    above = next((each for each in git_dir.parents if each.name == GIT), None)
    if kind != "gitdir" or above is None or not above.is_relative_to(top):
        raise _odd(git, top, "names no repository in a .git of the workspace")
    if git_dir != Path(os.path.realpath(git_dir)):
        raise _odd(git, top, "names its repository through a symbolic link")
    place = git_dir.relative_to(above).parts[0]
    if place == "modules" and folder.is_relative_to(above.parent):
        back = _WORKTREE.findall(_text(git_dir / "config") + _text(git_dir / "config.worktree"))
        if [_normal(git_dir, each) for each in back] == [folder]:
            return Repository(folder, git_dir, git_dir)
    elif place == "worktrees" and git_dir.parent.parent == above:
        back = [_text(git_dir / each).strip() for each in ("gitdir", "commondir")]
        if [_normal(git_dir, each) for each in back] == [git, above]:
            return Repository(folder, git_dir, above)
    shown = one_line(str(git_dir.relative_to(top)), _MAX_SHOWN)
    raise _odd(git, top, f"names {shown}, which does not name it")


def _odd(git: Path, top: Path, why: str) -> ScriptError:
    return ScriptError(
        f"Not run: git writes where a .git surely belongs to its folder, and {git.relative_to(top)} {why}. "
        "Ask the user to mend it (git worktree repair, git submodule update --init), or to run the command."
    )


def looked_into(repository: Repository, top: Path) -> Iterator[Repository]:
    """Yield the others in a work tree, where its index names one: git asks what has changed in it.

    Raises ScriptError for an odd `.git`.
    """
    indexes = filter(Path.is_file, repository.git_dir.glob("*index*"))
    if any(_GITLINK in file.read_bytes() for file in indexes):
        for above, folders, files in os.walk(repository.work_tree):
            if GIT in (*folders, *files) and Path(above) != repository.work_tree:
                yield repository_at(Path(above), top)
            folders[:] = [each for each in folders if each != GIT]


def programs_of(repository: Path, top: Path) -> Iterator[str]:
    """Yield what makes git run a program in a repository, or write elsewhere."""
    if os.path.lexists(repository / "commondir"):
        yield f"{repository.relative_to(top)}/commondir, which leads to another repository"
    for above, folders, files in os.walk(repository):
        folder = Path(above)
        for path in map(folder.joinpath, (*folders, *files)):
            is_out = path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(repository)
            if is_out and repository / "hooks" not in {path, folder}:  # which git neither runs nor writes
                yield f"the link {path.relative_to(top)}, which leads out"
        for path in (folder / name for name in files if name in _READ):
            if not path.is_file():
                yield f"{path.relative_to(top)}, which is no file"
            elif found := _READ[path.name].search(path.read_text(encoding="utf-8", errors="replace")):
                yield f"{found[1]} in {path.relative_to(top)}"
        if folder == repository / "objects":  # those of submodules may be somebody's folder of that name
            folders.clear()


def filters_of(repository: Repository, top: Path) -> Iterator[str]:
    """Yield the filters that files go through for the person, as those of Git LFS.

    They are programs, which do not run here: git would keep other bytes than the person's does.
    """
    keys = _asked(repository.git_dir, top, r"^filter\..*\.(clean|smudge|process)$")
    known = {key.partition(".")[2].rpartition(".")[0] for key in keys}
    named = [repository.common / "info" / "attributes"]
    for above, folders, files in os.walk(repository.work_tree if known else ""):
        named += [Path(above, name) for name in files if name == ".gitattributes"]
        folders[:] = [each for each in folders if each != GIT]
    for file in named:
        found = known.intersection(_FILTER.findall(_text(file)))
        yield from (f"filter={name} in {file.relative_to(top)}, which does not run here" for name in found)


def committer(repository: Path, workspace: Path) -> dict[str, str]:
    """Return who commits in a repository, as variables of git: in a run it reads no file of the person."""
    found = _asked(repository, workspace, r"^user\.(name|email)$")
    return {
        f"GIT_{who}_{key.removeprefix('user.').upper()}": value
        for who in ("AUTHOR", "COMMITTER")
        for key, value in found.items()
    }


def _asked(repository: Path, workspace: Path, keys: str) -> dict[str, str]:
    """Return what git's configuration says for the person, under keys in lower case."""
    git = find_program("git", workspace=workspace).path
    asked = [str(git), f"--git-dir={repository}", "config", "--get-regexp", keys]
    said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
    lines = (line.partition(" ") for line in said.stdout.decode(errors="replace").splitlines())
    return {key: value for key, _, value in lines}


def _text(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(_MAX_READ).replace("\0", "")


def _normal(folder: Path, path: str) -> Path:
    """Return a path that is meant from a folder on, links in it as they are: then it is no folder's own."""
    return Path(os.path.normpath(folder / path))
