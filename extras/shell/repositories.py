"""Where git works: a `.git`, or what the `.git` file of a submodule or of a linked worktree points at.

Anybody can write such a file. It counts where it stays beneath one top, goes through no link, and what it
points at points back: see gitrepository-layout(5), `core.worktree` in gitsubmodules(7), and git-worktree(1).
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.policy.protected import GIT
from skills_agent.skills.scripts.programs import find_program

_MAX_READ: Final = 100_000
_WORKTREE: Final = re.compile(r'(?mi)^\s*worktree\s*=\s*"?([^"\n]*?)"?\s*$')


class Repository(NamedTuple):
    """A repository as one folder has it; absolute paths, links resolved."""

    work_tree: Path
    git_dir: Path
    common: Path
    """Where its objects and references are: git writes here, and in `git_dir`, which lies in it."""


def repository_at(folder: Path, top: Path) -> Repository:
    """Return the repository of a folder; `git_dir` is a file where it points at none that points back."""
    git = folder / GIT
    found = Repository(folder, git, git)
    if git.is_symlink() or not git.is_file():
        return found
    kind, _, named = _text(git).partition(":")
    git_dir = Path(os.path.normpath(folder / named.strip()))
    above = next((each for each in git_dir.parents if each.name == GIT), None)
    if kind != "gitdir" or above is None or not above.is_relative_to(top) or git_dir != _real(git_dir):
        return found
    place = git_dir.relative_to(above).parts[0]
    if place == "modules" and folder.is_relative_to(above.parent):
        back = _WORKTREE.findall(_text(git_dir / "config") + _text(git_dir / "config.worktree"))
        is_known = [_real(git_dir / each) for each in back] == [folder]
        return Repository(folder, git_dir, git_dir) if is_known else found
    if place == "worktrees" and git_dir.parent.parent == above:
        points_back = _real(git_dir / _text(git_dir / "gitdir").strip()) == git
        is_common = _real(git_dir / _text(git_dir / "commondir").strip()) == above
        return Repository(folder, git_dir, above) if points_back and is_common else found
    return found


def committer(repository: Path, workspace: Path) -> dict[str, str]:
    """Return who commits in a repository, as variables of git: in a run it reads no file of the person."""
    git = find_program("git", workspace=workspace).path
    asked = [str(git), f"--git-dir={repository}", "config", "--get-regexp", r"^user\.(name|email)$"]
    said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
    lines = (line.partition(" ") for line in said.stdout.decode(errors="replace").splitlines())
    found = {key.removeprefix("user.").upper(): value for key, _, value in lines}
    return {f"GIT_{who}_{what}": found[what] for who in ("AUTHOR", "COMMITTER") for what in found}


def _text(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(_MAX_READ).replace("\0", "")


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
