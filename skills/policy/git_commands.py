"""Where git's commands write in a repository: a person is asked, and it is writable for that call alone.

A `.git` is protected, for git obeys what is in it. What a commit, a branch or a stash changes is not what git
obeys: objects, references, the index. So that is opened, and its configuration, hooks and attributes are not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Final

from skills_agent.skills.policy.shell import SimpleCommand

GIT: Final = ".git"
STATE: Final = (
    "AUTO_MERGE", "BISECT_ANCESTORS_OK", "BISECT_EXPECTED_REV", "BISECT_LOG", "BISECT_NAMES", "BISECT_START",
    "BISECT_TERMS", "CHERRY_PICK_HEAD", "COMMIT_EDITMSG", "FETCH_HEAD", "HEAD", "MERGE_AUTOSTASH",
    "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "MERGE_RR", "NOTES_EDITMSG", "ORIG_HEAD", "REBASE_HEAD",
    "REVERT_HEAD", "SQUASH_MSG", "TAG_EDITMSG", "gc.log", "index", "logs", "objects", "packed-refs",
    "refs", "rr-cache", "shallow",
)  # fmt: skip
"""What git writes in a repository and runs nothing of. Source: gitrepository-layout(5)."""
WRITES: Final = frozenset(
    {
        "add", "am", "bisect", "branch", "checkout", "cherry-pick", "commit", "commit-tree", "config",
        "fetch", "gc", "init", "merge", "mv", "notes", "pack-refs", "pull", "push", "read-tree", "rebase",
        "reflog",
        "remote", "repack", "replace", "reset", "restore", "revert", "rm", "stash", "switch", "symbolic-ref",
        "tag", "update-index", "update-ref", "worktree", "write-tree",
    }
)  # fmt: skip
_READS: Final[Mapping[str, frozenset[str]]] = {
    "bisect": frozenset({"log", "view"}),
    "branch": frozenset(
        {"", "-a", "-r", "-v", "-vv", "-l", "--all", "--contains", "--list", "--merged", "--no-merged"}
        | {"--remotes", "--show-current", "--verbose"}
    ),
    "config": frozenset({"", "-l", "--get", "--get-all", "--get-regexp", "--list", "get", "list"}),
    "notes": frozenset({"", "list", "show"}),
    "reflog": frozenset({"", "show"}),
    "remote": frozenset({"", "-v", "--verbose", "show", "get-url"}),
    "stash": frozenset({"list", "show"}),
    "tag": frozenset({"", "-l", "-n", "--list"}),
    "worktree": frozenset({"list"}),
}
"""Commands that only read, by what comes first behind them."""
_VALUED: Final = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env"})
"""Options of git itself that take a value."""
_VALUED_OF_COMMANDS: Final = frozenset({"-b", "-B", "--initial-branch", "--template", "--reason"})
_TODO: Final = ("rebase-apply", "rebase-merge", "sequencer")
_OBEYED: Final[Mapping[str, tuple[str, ...]]] = {
    "config": ("config",),
    "remote": ("config",),
    "worktree": ("worktrees",),
    **dict.fromkeys(("am", "cherry-pick", "pull", "rebase", "revert"), _TODO),
}
"""What git obeys and these commands change all the same: an `exec` in a rebase is run when it goes on."""
_HARMLESS: Final = frozenset({"cd", "echo", "git", "ls", "mkdir", "printf", "pwd", "touch", "true"})


def is_of_git_alone(line: Iterable[SimpleCommand]) -> bool:
    """Return whether a line runs git, and nothing that could write beside it in what is opened for git."""
    return all(each.program and Path(each.program).name in _HARMLESS for each in line)


def written_by(
    command: SimpleCommand, folder: Path, workspace: Path, *, alone: bool
) -> Iterator[tuple[str, Path | None]]:
    """Yield what a git command writes of the repository that it works on, and its name for people.

    `folder`: where it runs. `alone`: no other program runs in its line. Beside another one, what git obeys is
    named or left closed, and a repository that is made is not opened (None): that program could write there
    what git runs for the person. Nothing for a command that only reads, and for a repository outside of the
    workspace, which no command sees.
    """
    if not command.program or Path(command.program).name != "git":
        return
    folder, words = _behind_options(folder, command.known[1:])
    name, *rest = words or ("",)
    operands = [
        word
        for before, word in pairwise(["", *rest])
        if not word.startswith("-") and before not in _VALUED_OF_COMMANDS
    ]
    if name == "init":
        yield f"{GIT} (git init)", folder.joinpath(*operands[:1]) / GIT if alone else None
    elif name in WRITES and not _only_reads(name, rest, whole=len(command.known) == len(command.words)):
        if repository := _repository(folder, workspace):
            more = _OBEYED.get(name, ()) if alone else ()
            yield from ((f"{GIT} (git {name})", repository / each) for each in (*STATE, *more))
        if name == "worktree":
            yield from (
                (f"{GIT} (git {name})", folder / each / GIT if alone else None) for each in operands[1:]
            )


def _behind_options(folder: Path, words: Sequence[str]) -> tuple[Path, list[str]]:
    """Return where git works, and its command with what comes behind it."""
    left = list(words)
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option in _VALUED and left:
            value = left.pop(0)
            folder = folder / value if option == "-C" else folder
    return folder, left


def _only_reads(name: str, rest: Sequence[str], *, whole: bool) -> bool:
    """`whole`: all words are known."""
    first = rest[0] if rest else ""
    if not rest and not whole:
        return False
    if name == "config" and whole and len(list(dropwhile(lambda each: each.startswith("-"), rest))) == 1:
        return not {"--unset", "--unset-all", "--remove-section", "--edit", "-e"} & set(rest)
    return first.partition("=")[0] in _READS.get(name, ())


def _repository(folder: Path, workspace: Path) -> Path | None:
    """Return the `.git` of a folder of the workspace; None for none, and for a file that names another."""
    for each in (folder, *folder.parents):
        if (each / GIT).is_dir():
            return each / GIT
        if each == workspace or (each / GIT).exists():
            break
    return None
