"""What other programs execute or obey when a person opens a folder: the one list, for policy and the sandbox.

docs/policy.md has the list as a table. The setting `protected_paths` adds to it; nothing takes away from it.
"""

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from glob import iglob
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from skills_agent.skills.confined import is_in

GIT: Final = ".git"
READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "version control": (
        ".git", ".gitmodules", ".gitattributes", ".gitconfig", ".hg", ".hgrc", ".svn", ".jj", ".bzr",
    ),
    "editors": (
        ".vscode", ".vscode-server", ".idea", ".vs", ".fleet", ".zed", ".devcontainer", ".devcontainer.json",
        "*.code-workspace", "*.sublime-project", ".dir-locals.el", ".emacs", ".emacs.d", ".vim", ".vimrc",
        ".gvimrc", ".lvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".nanorc", ".helix", ".dir-locals-2.el",
        ".nova", ".kateproject", ".project", ".ycm_extra_conf.py", "pyrightconfig.json",
    ),
    "coding agents": (
        ".agent", ".agents", ".claude", ".codex", ".cursor", ".gemini", ".windsurf", ".continue", ".roo",
        ".clinerules", ".cursorrules", ".windsurfrules", ".aider*", ".mcp.json", "AGENTS.md", "CLAUDE.md",
        "CLAUDE.local.md", "GEMINI.md", "AGENT.md", "AGENTS.override.md", "QWEN.md", ".qwen", ".kiro",
        ".opencode", "opencode.json*", ".crush*", "crush.json", ".junie", ".trae", ".amazonq", ".augment*",
        ".kilocode*", ".goosehints", ".rules",
    ),
    "shells, and programs at their start": (
        ".envrc", ".direnv", ".autoenv*", ".bashrc", ".bash_*", ".profile", ".login", ".logout", ".zshrc",
        ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".zsh", ".oh-my-zsh", ".kshrc", ".cshrc", ".tcshrc",
        ".inputrc", ".xprofile", ".xsession*", ".xinitrc", ".pam_environment", ".tmux.conf", ".screenrc",
        ".gdbinit", ".lldbinit", ".pdbrc*", ".pythonrc*", ".ipython", ".jupyter", ".irbrc", ".pryrc",
        ".Rprofile", ".Renviron", ".ghci", ".psqlrc", ".sqliterc", ".curlrc", ".wgetrc", ".config", ".local",
        ".pyenv", ".rbenv", ".nvm", ".asdf", ".rvmrc", ".gdbearlyinit", ".octaverc", ".iex.exs", ".ocamlinit",
        ".byebugrc", ".perldb", ".psysh.php", ".mailcap",
    ),
    "the agent's server": (".env", "langgraph*.json", ".langgraph_api"),
    "hooks and build servers": (
        ".husky", ".github", ".gitlab", ".gitlab-ci.yml", ".circleci", ".buildkite", ".woodpecker*",
        ".drone.yml", ".travis.yml", "Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml",
        ".gitpod.yml", ".pre-commit-config.y*ml", ".pre-commit-hooks.yaml", "lefthook.y*ml", ".lefthook*",
        "lefthook-local.y*ml", ".overcommit.yml", ".githooks", ".huskyrc*", ".lintstagedrc*", ".gitea",
        ".forgejo", ".cirrus.*", ".appveyor.yml", "appveyor.yml", ".semaphore", ".teamcity",
    ),
    "package managers and tools": (
        ".npmrc", ".yarnrc*", ".yarn", ".pnpmfile.*", ".tool-versions", "mise.toml", ".mise*", ".cargo",
        ".bazelrc", ".mvn", ".bundle", ".eslintrc*", "eslint.config.*", ".prettierrc*", "prettier.config.*",
        ".stylelintrc*", "stylelint.config.*", ".babelrc*", ".rubocop.yml", ".solargraph.yml", ".pnp.*",
        ".gemrc", ".rspec", ".mocharc*", ".commitlintrc*", ".pylintrc", "pylintrc", ".flake8", "mypy.ini",
        ".mypy.ini",
    ),
}  # fmt: skip
"""By who executes or obeys them: names of files and folders, at any depth; `*` is any text in a name."""

PROTECTED: Final[Mapping[str, str]] = MappingProxyType(
    {entry: reader for reader, entries in READERS.items() for entry in entries}
)
"""Who obeys an entry, by the entry."""
_WORK: Final = (".agent", "work")
"""Folders of threads, which scripts work in: an exception."""
_IN_WORDS: Final = re.compile(r"""[^\s=:,;|&<>()\[\]{}'"`@$]+""")
_SHORT_OPTION: Final = re.compile(r"-\w(?=[./~])")
_WILDCARD: Final = re.compile(r"[*?]|\[[^]]*\]|\{[^}]*\}|\$\w*")
_QUOTING: Final = str.maketrans("", "", "\"'\\")
_OPEN: Final = ("*", "?", "[")
MAX_WILDCARDS: Final = 2
"""Parts of a path with a wildcard that are looked up in the folders; of more, any name that fits counts."""
MAX_NAME: Final = 255
"""Bytes of a file's name, nearly everywhere."""
_SHORT_NAME: Final = re.compile(r"git~\d+")
"""What Windows calls `.git` in eight letters."""


class ProtectedPath(NamedTuple):
    """A protected path that a call names."""

    shown: str
    """As the call writes it."""
    entry: str
    """What protects it."""
    place: Path | None
    """Where it is; None where no script may write: in a `.git`, behind a link, outside of the workspace."""

    @property
    def reader(self) -> str:
        """Return who obeys it."""
        return PROTECTED.get(self.entry, "protected_paths")


def protected_by(path: str, more: Iterable[str] = ()) -> str | None:
    """Return the entry that protects a path with `/` between its parts, or a folder above it; None for none.

    An entry in `more` that begins with `/` is meant at the top alone. Every spelling counts that some file
    system takes for the same name: other letter case, dots and spaces at the end, invisible characters,
    streams of NTFS.
    """
    parts = [_plain(part) for part in posixpath.normpath(path).split("/") if part not in {"", ".", ".."}]
    if tuple(parts[:2]) == _WORK:
        parts = parts[3:]
    folders = _folders(tuple(more))
    for at, part in enumerate(parts):
        if entry := _by_name(part, tuple(more)):
            return entry
        for folder, entry in folders:
            here = parts[at : at + len(folder)]
            is_place = at == 0 or not entry.startswith("/")
            if is_place and len(here) == len(folder) and all(map(fnmatchcase, here, folder)):
                return entry
    return None


def is_protected_name(name: str, more: tuple[str, ...] = ()) -> bool:
    """Return whether one name is protected wherever it stands; entries of several names are not looked at."""
    return _by_name(_plain(name), more) is not None


def protected_path(
    path: str, workspace: Path, more: Iterable[str] = (), workdir: Path | None = None
) -> ProtectedPath | None:
    """Return what is protected at a path as a call writes it; a relative one counts from `workdir`.

    The path is looked at as it is written and with its links resolved.
    """
    if "\0" in path:
        return None
    root = os.path.realpath(workspace)
    written = os.path.join(os.path.realpath(workdir or workspace), path)  # noqa: PTH118 - `..` stays
    plain, real = os.path.normpath(written), os.path.realpath(written)
    if entry := protected_by(_inside(plain, root, os.fspath(workspace)), more):
        is_open = plain == real and _inside(real, root) != real and entry != GIT
        return ProtectedPath(path, entry, Path(real) if is_open else None)
    entry = protected_by(_inside(real, root), more)
    return ProtectedPath(path, entry, None) if entry else None


def protected_in(
    words: Iterable[str], workspace: Path, more: Iterable[str] = (), workdir: Path | None = None
) -> Iterator[ProtectedPath]:
    """Yield what is protected of the paths in a program's arguments, also inside of an argument."""
    for word in words:
        pieces = _IN_WORDS.findall(word)
        for text in dict.fromkeys(
            (word, *pieces, *(_SHORT_OPTION.sub("", piece, count=1) for piece in pieces))
        ):
            if found := protected_path(text, workspace, more, workdir):
                yield found


def protected_in_text(
    command: str, workspace: Path, more: Iterable[str] = (), workdir: Path | None = None, *, cwd: str = ""
) -> Iterator[ProtectedPath]:
    """Yield what is protected of the paths that a command line may name, which nobody took apart.

    A word with a variable or a wildcard counts if it may become a protected name. `cwd`: where it begins,
    from `workdir` or absolute.
    """
    yield from protected_as_written(command, workspace, more, workdir, cwd=cwd)
    words = re.split(r"[\s;|&<>()]+", command.translate(_QUOTING))
    yield from perhaps_protected(words, workspace, more, (workdir or workspace) / cwd)


def protected_as_written(
    command: str, workspace: Path, more: Iterable[str], workdir: Path | None, *, cwd: str
) -> Iterator[ProtectedPath]:
    """Yield what is protected of the paths that are spelled out in a command line, and of its folder."""
    top = workdir or workspace
    yield from protected_in(filter(None, [cwd]), workspace, more, top)
    yield from protected_in((command, command.translate(_QUOTING)), workspace, more, top / cwd)


def perhaps_protected(
    shapes: Iterable[str], workspace: Path, more: Iterable[str], root: Path
) -> Iterator[ProtectedPath]:
    """Yield what words may name of which a shape is known: what there is now, and what is spelled out."""
    names = tuple(each for each in (*PROTECTED, *more) if "/" not in each)
    for shape in filter(_WILDCARD.search, shapes):
        parts = re.split(r"[/=:,]", shape)
        is_wide = sum(map(bool, map(_WILDCARD.search, parts))) > MAX_WILDCARDS
        for part in (each.rstrip(". ") for each in parts):
            is_open = part.startswith(_OPEN) and not is_wide
            is_any = not _WILDCARD.sub("", part)
            # Of `*.code-workspace` nothing stands in a word whose end is not known: `== $name`.
            known = names if not part.endswith("*") else tuple(name for name in names if name[0] != "*")
            if entry := next((one for one in known if not (is_open or is_any) and _overlap(part, one)), None):
                yield ProtectedPath(shape, entry, None)
        if not is_wide:
            is_hidden_meant = bool(shape.strip("*?/"))
            # A Path's own glob takes `**` for any depth, and bash does not.
            for found in iglob(shape, root_dir=root, include_hidden=is_hidden_meant):  # noqa: PTH207
                if protected := protected_path(found, workspace, more, root):
                    yield protected._replace(shown=shape, place=None)


@lru_cache(maxsize=4096)
def _overlap(shape: str, entry: str) -> bool:
    """Return whether some name is both what a shape and what an entry says."""
    shape, entry = _WILDCARD.sub("*", _plain(shape)), _plain(entry)
    if len(shape) > MAX_NAME:
        return False
    reached = {(0, 0)}
    left = [(0, 0)]
    while left:
        one, other = left.pop()
        if one == len(shape) and other == len(entry):
            return True
        ends = one < len(shape), other < len(entry)
        steps = []
        if ends[0] and shape[one] == "*":
            steps += [(one + 1, other)] + [(one, other + 1)] * ends[1]
        if ends[1] and entry[other] == "*":
            steps += [(one, other + 1)] + [(one + 1, other)] * ends[0]
        if all(ends) and shape[one] == entry[other]:
            steps.append((one + 1, other + 1))
        left += [step for step in steps if step not in reached]
        reached.update(steps)
    return False


@lru_cache(maxsize=64)
def _folders(more: tuple[str, ...]) -> list[tuple[list[str], str]]:
    """Return the entries that are more than a name, in their parts."""
    return [([_plain(part) for part in entry.split("/") if part], entry) for entry in more if "/" in entry]


@lru_cache(maxsize=8192)
def _by_name(plain: str, more: tuple[str, ...]) -> str | None:
    """Return the entry that is, or matches, one name."""
    names, open_ones, pattern = _entries(more)
    match = pattern.match(plain)
    return names.get(plain) or (open_ones[match.lastindex - 1] if match and match.lastindex else None)


@lru_cache(maxsize=64)
def _entries(more: tuple[str, ...]) -> tuple[dict[str, str], list[str], re.Pattern[str]]:
    """Return the entries that are one name, by it; those with a wildcard; a pattern with a group for each.

    Thousands of names are looked at after a run; to try them against each entry would take seconds.
    """
    plain = {entry: _plain(entry) for entry in (*PROTECTED, *more) if "/" not in entry}
    open_ones = [entry for entry, name in plain.items() if any(map(name.count, _OPEN))]
    names = {name: entry for entry, name in reversed(plain.items()) if entry not in open_ones}
    return names, open_ones, re.compile("|".join(f"({translate(plain[entry])})" for entry in open_ones))


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Return a name as the least exact file system reads it."""
    if not name.isascii():
        name = "".join(
            each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf"
        )
    plain = name.casefold().partition(":")[0].rstrip(". ")
    return ".git" if _SHORT_NAME.fullmatch(plain) else plain


def _inside(place: str, *roots: str) -> str:
    """Return a path from a root on, so that the folders above it do not count; else the whole path."""
    for root in roots:
        if is_in(place, root):
            return place[len(root) :]
    return place
