"""What is obeyed in a folder though its own name does not say so: a protected link or a `.git` leads there.

git's configuration is read here and not by git, because it is read for every script; so it is taken loosely:
whatever of a value may be a path counts, if it is there. Paths are text, because thousands of folders are
looked at.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.sandbox.folder_after import FolderAfter
from skills_agent.skills.confined import is_in
from skills_agent.skills.policy.protected import is_protected_name, protected_by
from skills_agent.skills.scripts.changes import Change

SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages", ".tox", ".nox", ".mypy_cache"})
"""Folders of other people's packages, or of what can be made again."""
CACHE: Final = "__pycache__"
"""What Python runs in the place of the code beside it."""
MAX_FOLDERS: Final = 20_000
"""Folders of a look, the nearest to the top first."""
MAX_POINTER: Final = 64 * 1024
_GLOBAL: Final = ("~/.gitconfig", "~/.config/git/config")
"""What a user tells git for every repository, such as a folder of hooks in each."""
MAX_CONFIGS: Final = 30
"""Files of configuration that one repository leads to."""
_GIT_FOLDER: Final = ("HEAD", "config", "config.worktree", "commondir", "hooks", "info")
"""What git obeys of a repository without a work tree; it takes any folder with HEAD and objects for one."""
_ENTRY: Final = re.compile(r"^\s*(?:\[[^\]]*\]\s*)*([A-Za-z][\w-]*)\s*=\s*(.*)$")
_IN_VALUE: Final = re.compile(r"""[^\s"';|&<>()`$!=,#]+""")
_INCLUDES: Final = frozenset({"path"})
"""Keys whose value may be more configuration."""
_FOLDERS_OR_FILES: Final = frozenset({"hookspath", "path", "templatedir"})
_NO_PROGRAMS: Final = frozenset(
    {"name", "email", "url", "pushurl", "fetch", "push", "merge", "remote", "worktree"}
)
"""Keys whose values may be like the name of a file, and that git never runs."""


class Obeyed(NamedTuple):
    """What is obeyed in a folder, whatever it is called; each path with who names it, or leads to it."""

    gits: list[str]
    """What is called `.git`."""
    by_git: dict[str, str]
    """Repositories that such a file leads to, hooks, programs, more configuration."""
    by_links: dict[str, str]
    """Where protected links lead in the end, and the links on the way: each could be led elsewhere."""

    @property
    def elsewhere(self) -> dict[str, str]:
        """Return both."""
        return self.by_links | self.by_git


class _FolderLook(NamedTuple):
    """What was seen of one folder."""

    changed: int
    """Its change time (st_ctime_ns), which no program can set."""
    inner: list[str]
    gits: list[str]
    links: list[str]
    """Protected ones."""


class ObeyedFiles:
    """Finds what is obeyed in a folder. What has not changed since the last look costs one `stat`."""

    def __init__(self, root: Path, more: Iterable[str] = (), own: str = "") -> None:
        """Name the folder, more entries, and the agent's own folder in it, which is not looked at."""
        self.root, self._own, self._more = os.path.realpath(root), own, tuple(more)
        self._last_names = tuple(entry.rpartition("/")[2] for entry in self._more if "/" in entry)
        self._known: dict[str, _FolderLook] = {}

    def look(self) -> Obeyed:
        """Return what is obeyed now, but in `SKIPPED` folders."""
        seen: dict[str, _FolderLook] = {}
        folders = [""]
        for folder in folders:
            if len(seen) >= MAX_FOLDERS:
                break
            with suppress(OSError):
                look = seen[folder] = self._look_at(folder)
                folders += look.inner
        self._known = seen
        found = Obeyed([git for look in seen.values() for git in look.gits], {}, {})
        for git in found.gits:
            for path in self._named_by(git):
                self._lead(path, git, found.by_git)
        for link in [link for look in seen.values() for link in look.links]:
            self._lead(link, link, found.by_links)
        return found

    def _look_at(self, folder: str) -> _FolderLook:
        path = os.path.join(self.root, folder)
        changed = os.stat(path, follow_symlinks=False).st_ctime_ns
        known = self._known.get(folder)
        if known and known.changed == changed:
            return known
        look = _FolderLook(changed, [], [], [])
        with os.scandir(path) as entries:
            found = {entry.name: entry for entry in entries}
        is_repository = "HEAD" in found and not {"objects", "commondir"}.isdisjoint(found)
        for name, entry in found.items():
            here = f"{folder}/{name}" if folder else name
            is_protected = self._is_protected(name, here) or (is_repository and name in _GIT_FOLDER)
            if is_protected and here != self._own:
                look.gits.extend([here] * is_git(name))
                look.links.extend([here] * entry.is_symlink())
            elif name not in SKIPPED and here != self._own and entry.is_dir(follow_symlinks=False):
                look.inner.append(here)
        return look

    def _is_protected(self, name: str, path: str) -> bool:
        if is_protected_name(name, self._more):
            return True
        is_last = bool(self._last_names) and is_protected_name(name, self._last_names)
        return is_last and protected_by(path, self._more) is not None

    def _lead(self, path: str, pointer: str, found: dict[str, str]) -> None:
        """Add a path, the links on its way, and where they lead, if that is in the folder."""
        way = FolderAfter(Path(self.root), ())
        ends = way.ends_inside(Change(path, "added", "link", target=f"/{self.root}/{path}"))
        for each in (path, *ends, *way.links):
            found.setdefault(each, pointer)

    def _named_by(self, git: str) -> Iterator[str]:
        """Yield what a `.git` names in the folder: a worktree's repository, hooks, programs and so on."""
        top, home = os.path.dirname(git), git
        if os.path.isfile(os.path.join(self.root, git)):
            home = self._inside(self._read(git).removeprefix("gitdir:").strip(), top)
        common = home and self._inside(self._read(f"{home}/commondir").strip() or ".", home)
        yield from (each for each in dict.fromkeys((home, common)) if each and each != git)
        if not common:
            return
        hooks = f"{common}/hooks"
        yield from (each for each in (hooks, *self._entries(hooks)) if os.path.islink(f"{self.root}/{each}"))
        configs = [f"{common}/config", f"{home}/config.worktree", *map(os.path.expanduser, _GLOBAL)]
        for config in configs:
            own = () if os.path.isabs(config) else (os.path.dirname(config),)
            for text, keys in _named_in(self._read(config)).items():
                for path in filter(None, (self._inside(text, start) for start in {top, *own})):
                    is_file = os.path.isfile(os.path.join(self.root, path))
                    if is_file or keys & _FOLDERS_OR_FILES:  # these may be made later
                        yield path
                    if is_file and keys & _INCLUDES and path not in configs and len(configs) < MAX_CONFIGS:
                        configs.append(path)

    def _entries(self, folder: str) -> list[str]:
        with suppress(OSError):
            return [f"{folder}/{name}" for name in os.listdir(os.path.join(self.root, folder))]
        return []

    def _read(self, path: str) -> str:
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(os.path.join(self.root, path), flags), "rb") as file:
                return os.fsdecode(file.read(MAX_POINTER))
        return ""

    def _inside(self, target: str, start: str = "") -> str:
        """Return a path in the folder, links resolved; empty for one that is outside."""
        if "\0" in target:
            return ""
        real = os.path.realpath(os.path.join(self.root, start, target))
        return os.path.relpath(real, self.root) if real != self.root and is_in(real, self.root) else ""


def is_git(path: str) -> bool:
    """Return whether a path is called `.git`, in any letter case."""
    return f"/{path}".casefold().endswith("/.git")


def _named_in(config: str) -> dict[str, set[str]]:
    """Return what the values of a configuration may name, each with the keys that it is a value of."""
    named: dict[str, set[str]] = {}
    for line in config.replace("\\\n", "").splitlines():
        if not (entry := _ENTRY.match(line)) or (key := entry[1].casefold()) in _NO_PROGRAMS:
            continue
        value = entry[2].replace("\\", "")
        whole = re.split(r'"[^"]*$|[;#]', value.strip().removeprefix('"'), maxsplit=1)[0].strip()
        for text in filter(None, (whole, *_IN_VALUE.findall(value))):
            named.setdefault(text, set()).add(key)
    return named
