"""git's commands that write in a repository: each runs as one program by itself, and runs no other.

A `.git` is read-only for every script and every command line, because git obeys what is in it. A plain git
command that a person approved is neither: no shell starts it, and what makes git run programs is off.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, dropwhile, pairwise
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.shell.commands import SimpleCommand, cd_target, is_option
from skills_agent.shell.repositories import Repository, filters_of, looked_into, programs_of, repository_at
from skills_agent.shell.shell import in_list, take_apart
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.policy.protected import GIT

_SEVERAL: Final = frozenset({"bisect", "submodule", "worktree"})
"""What writes in several repositories or folders, or runs programs: it is left to the person."""
WRITES: Final = _SEVERAL | frozenset(
    {
        "add", "am", "branch", "checkout", "cherry-pick", "commit", "commit-tree", "config", "fetch", "gc",
        "init", "merge", "mv", "notes", "pack-refs", "pull", "push", "read-tree", "rebase", "reflog",
        "remote", "repack", "replace", "reset", "restore", "revert", "rm", "stash", "switch", "symbolic-ref",
        "tag", "update-index", "update-ref", "write-tree",
    }
)  # fmt: skip
"""Programs of git itself, which no alias can replace. Others find a `.git` that is read-only."""
_READS: Final[Mapping[str, frozenset[str]]] = {
    "bisect": frozenset({"", "log"}),
    "branch": frozenset(
        {"", "-a", "-r", "-v", "-vv", "-l", "--all", "--contains", "--list", "--merged", "--no-merged"}
        | {"--remotes", "--show-current", "--verbose"}
    ),
    "config": frozenset({"", "-l", "--get", "--get-all", "--get-regexp", "--list", "get", "list"}),
    "notes": frozenset({"", "list", "show"}),
    "reflog": frozenset({"", "show"}),
    "remote": frozenset({"", "-v", "--verbose", "show", "get-url"}),
    "stash": frozenset({"list", "show"}),
    "submodule": frozenset({"", "foreach", "status", "summary"}),
    "tag": frozenset({"", "-l", "-n", "--list"}),
    "worktree": frozenset({"list"}),
}
"""Commands that only read, by what comes first behind them."""
_LEFT_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("--recurse-submodules",),  # of every command: others are not looked at
    "fetch": ("--upload-pack",),
    "init": ("--bare", "--separate-git-dir", "--template"),
    "pull": ("--upload-pack",),
    "push": ("--exec", "--receive-pack"),
    "rebase": ("--exec", "-x"),
}
"""Options that run a program, or make what git obeys; git takes the beginning of a long one, too."""
_QUOTING: Final = str.maketrans("", "", "\"'\\")
_OF_CONFIG: Final = frozenset({"--add", "--bool", "--local", "--replace-all", "--unset", "--unset-all"})
_INERT: Final = re.compile(
    r"(?:user|author|committer)\.(?:name|email)|init\.defaultbranch|pull\.(?:ff|rebase)"
    r"|push\.(?:autosetupremote|default|followtags)|merge\.(?:conflictstyle|ff)"
    r"|core\.(?:autocrlf|eol|filemode|ignorecase|quotepath|safecrlf)"
    r"|(?:branch|remote)\..+\.(?:description|fetch|merge|pushurl|rebase|remote|url)",
    re.IGNORECASE,
)
"""Configuration that names no program and no file."""
_OFF: Final[Mapping[str, str]] = {
    "core.askPass": "", "core.attributesFile": os.devnull, "core.fsmonitor": "false",
    "core.hooksPath": os.devnull, "core.pager": "cat", "core.sshCommand": "ssh", "credential.helper": "",
    "commit.gpgSign": "false", "push.gpgSign": "false", "tag.gpgSign": "false", "gc.auto": "0",
    "gc.worktreePruneExpire": "never", "fetch.recurseSubmodules": "false",
    "maintenance.auto": "false", "safe.bareRepository": "explicit", "submodule.recurse": "false",
}  # fmt: skip
GIT_ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_ALLOW_PROTOCOL": "http:https:ssh:git", "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":", "GIT_TEMPLATE_DIR": "", "GIT_TERMINAL_PROMPT": "0",
}  # fmt: skip
"""What turns the rest off: an editor that git itself takes for "leave it as it is", no template, and no other
repository of this machine, whose hooks a push would run."""


class GitCommand(NamedTuple):
    """A git command that writes, as it is written, and then as it is run."""

    name: str
    rest: tuple[str, ...]
    inside: str
    """Where it works, from the folder that it starts in: what `-C` says."""
    settings: tuple[str, ...]
    """What `-c` says."""
    odd: str
    """The first option of git itself beside these."""
    repository: Repository = Repository(Path(), Path(), Path())


def git_write(command: str, start: Path, root: Path) -> GitCommand | None:
    """Return the git command that a line is, and nothing else; None where it writes in no repository.

    `start` is where it starts, and `root` the folder whose repositories count. Raises ScriptError where
    another program is in the line, or where git would run one.
    """
    try:
        return _git_write(command, start, root) if may_write(command) else None
    except OSError as error:  # such as a name that is too long, or a file that nobody may read
        raise ScriptError(f"Not run: git cannot work there ({error.strerror}).") from error


def _git_write(command: str, start: Path, root: Path) -> GitCommand | None:
    line, top, words = take_apart(command), os.path.realpath(root), tuple(command.split(maxsplit=2)[:2])
    if line and len(line) == 2 and [each.raw for each in in_list(command)] == [";", "&&"]:
        folder = cd_target(line[0])
        line = (replace(line[1], folders=(folder,)),) if folder else line
    meant = GitCommand(words[-1], (), "", (), "")  # -m "$(cat <<END …)"
    if line is None and words[0] == GIT[1:] and meant.name in WRITES and _repository(meant, start, top):
        raise _beside(meant.name)
    for each in line or ():
        git = spelled(each)
        if git is None or each.folders is None:
            continue
        repositories = [_repository(git, start / folder, top) for folder in each.folders]
        if not repositories or None in repositories:
            continue
        if line is None or len(line) > 1 or not is_plain(each):
            raise _beside(git.name)
        (repository, *_) = filter(None, repositories)
        inner = [*looked_into(repository, Path(top))]
        programs = (fault for one in (repository, *inner) for fault in programs_of(one.common, Path(top)))
        moved, filters = _moved(git, start / each.folders[0], inner), filters_of(repository, Path(top))
        for fault in chain(_odd(git), moved, programs, filters):  # in turn: git is asked where nothing is odd
            raise ScriptError(
                f"Not run: git {git.name} writes only where nothing makes it run or obey something else, and "
                f"here is {fault}. Leave that out, or ask the user to run the command."
            )
        return git._replace(inside=os.path.join(each.folders[0], git.inside), repository=repository)  # noqa: PTH118
    return None


def may_write(command: str) -> bool:
    """Return whether git is in a line, in any spelling."""
    return GIT[1:] in command.translate(_QUOTING)


def _beside(name: str) -> ScriptError:
    return ScriptError(
        f"Not run: git {name} writes in .git, and only a plain git command may: every word spelled out, no "
        "pipe, redirection, loop, variable or $(...) around it. Put other commands before or behind it with "
        "&& or ;, or into another call, with the folder as cwd or -C."
    )


def spelled(command: SimpleCommand) -> GitCommand | None:
    """Return a command of git that writes; None for any other."""
    if not command.program or Path(command.program).name != GIT[1:]:
        return None
    left, inside, settings, odd = list(command.known[1:]), "", [], ""
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option == "-C" and left:
            inside = os.path.join(inside, left.pop(0))  # noqa: PTH118 - `..` stays
        elif option == "-c" and left:
            settings.append(left.pop(0))
        elif option not in {"--no-pager", "-P"}:
            odd = odd or option
    name, *rest = left or ("",)
    if name not in WRITES or _only_reads(name, rest, whole=len(command.known) == len(command.words)):
        return None
    return GitCommand(name, tuple(rest), inside, tuple(settings), odd)


def _only_reads(name: str, rest: Sequence[str], *, whole: bool) -> bool:
    """`whole`: all words are known."""
    first = rest[0] if rest else ""
    if not rest and not whole:
        return False
    if name == "config" and whole and len(list(dropwhile(lambda each: each.startswith("-"), rest))) == 1:
        return not {"--unset", "--unset-all", "--remove-section", "--edit", "-e"} & set(rest)
    return first.partition("=")[0] in _READS.get(name, ())


def _repository(git: GitCommand, start: Path, top: str) -> Repository | None:
    """Return the repository that a command works on: the nearest one; None for none beneath the top."""
    folder = start / git.inside
    if git.name == "init":
        named = pairwise(["", *git.rest])
        values = {"-b", "--initial-branch"}
        folder /= next((word for before, word in named if word[:1] != "-" and before not in values), "")
    real = Path(os.path.realpath(folder))
    above = (each for each in (real, *real.parents) if each.is_relative_to(top))
    found = (each for each in above if git.name == "init" or os.path.lexists(each / GIT))
    return next((repository_at(each, Path(top)) for each in found), None)


def is_plain(command: SimpleCommand) -> bool:
    """Return whether a command of git needs no shell: its output is kept anyway."""
    is_bare = not command.assignments and len(command.known) == len(command.words)
    kept = all(each.is_harmless and each.operator[0] != "<" for each in command.redirections)
    return is_bare and kept and command.program == GIT[1:]


def _odd(git: GitCommand) -> Iterator[str]:
    """Yield what a command says that git would run, or obey later."""
    yield from [git.odd] if git.odd else []
    yield from ["more than one repository"] if git.name in _SEVERAL else []
    yield from (
        f"-c {setting}" for setting in git.settings if not _INERT.fullmatch(setting.partition("=")[0])
    )
    for option in (*_LEFT_OUT[""], *_LEFT_OUT.get(git.name, ())):
        yield from (word for word in git.rest if is_option(word, option))
    if git.name == "config":
        key = next((each for each in git.rest if each[:1] != "-" and each not in {"set", "unset"}), "")
        yield from (each for each in git.rest if each[:1] == "-" and each not in _OF_CONFIG)
        yield from [] if _INERT.fullmatch(key) else [f"the setting {key}"]


def _moved(git: GitCommand, folder: Path, inner: Sequence[Repository]) -> Iterator[str]:
    """Yield the repositories that git would move, and write what leads to them: only one is open to it."""
    sources = [word for word in git.rest if word[:1] != "-"][:-1] if git.name == "mv" else []
    for word in sources:
        real = os.path.realpath(folder / git.inside / word)
        yield from (f"the repository in {word}" for each in inner if each.work_tree.is_relative_to(real))


def arguments(git: GitCommand, start: Path) -> tuple[str, ...]:
    """Return what git gets: the command as it is written, and what turns other programs off."""
    settings = (*git.settings, *(f"{key}={value}" for key, value in _OFF.items()))
    work_tree = os.path.relpath(git.repository.work_tree, os.path.realpath(start / git.inside))
    # A run may see a copy of the work tree elsewhere; the repository is where it is.
    named = (f"--git-dir={git.repository.git_dir}", f"--work-tree={work_tree}")
    return (
        *("--no-pager", "-C", git.inside or "."),
        *(word for setting in settings for word in ("-c", setting)),
        *(() if git.name == "init" else named),
        git.name,
        *(("--no-recurse-submodules",) if git.name in {"fetch", "pull", "push"} else ()),
        *git.rest,
    )
