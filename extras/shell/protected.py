"""The protected paths that a command line names."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from skills_agent.shell.git_commands import git_write
from skills_agent.shell.reading import read_paths
from skills_agent.shell.shell import take_apart
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import (
    GIT,
    ProtectedPath,
    perhaps_protected,
    protected_as_written,
    protected_in,
    protected_in_text,
)


def protected_in_command(
    command: str, workspace: Path, more: Iterable[str] = (), workdir: Path | None = None, *, cwd: str = ""
) -> Iterator[ProtectedPath]:
    """Yield what is protected of the paths that a command line names, and may change.

    Its words are looked at as programs get them, from each folder that `cd` may have led to. A word with a
    variable or a wildcard counts if it may become a protected name. A line that only reads changes none.
    `cwd`: where it begins, from `workdir` or absolute.
    """
    line = take_apart(command)
    if line is None:
        yield from protected_in_text(command, workspace, more, workdir, cwd=cwd)
        return
    if read_paths(line) is not None:
        return
    top = workdir or workspace
    yield from protected_as_written(command, workspace, more, workdir, cwd=cwd)
    with suppress(ScriptError):  # it is said where the line is to be run
        if git := git_write(command, top / cwd, top):
            yield ProtectedPath(f"{GIT} (git {git.name})", GIT, git.repository.common)
    for each in line:
        known = [word.text for word in each.every_word if word.text is not None]
        shapes = [word.shape for word in each.every_word if word.text is None]
        for folder in each.folders or ("",):
            yield from protected_in(known, workspace, more, top / cwd / folder)
            yield from perhaps_protected(shapes, workspace, more, top / cwd / folder)
