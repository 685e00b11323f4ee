"""The locks of `npx skills` (1.7), read: what it installed here, from where, and if that is so still.

A project has `skills-lock.json`, and the home folder `.agents/.skill-lock.json`. The skills are in
`.agents/skills/NAME`, or in the folder of the one agent that `-a` named: `.claude/skills/NAME`. Its own tool
never checks its hashes. `computedHash` is the SHA-256 of the path and bytes of each file in turn, with
nothing between: `a` + `bc` is `ab` + `c`, and modes do not count. So it finds changes by accident, and
vouches for nothing; only a skill's digest does.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from skills_agent.skills.confined import open_beneath, read_beneath
from skills_agent.skills.packages.errors import LockFileError
from skills_agent.skills.sources.directory import STANDARD_FOLDERS
from skills_agent.skills.visible import visible_line

PROJECT_LOCK: Final = "skills-lock.json"
USER_LOCK: Final = ".agents/.skill-lock.json"
_MAX_BYTES: Final = 8_000_000
_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,254}")
_SKIPPED: Final = frozenset({".git", "node_modules"})
_ORDER: Final = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
"""ASCII in the order of JavaScript's `localeCompare` (the root collation of CLDR), a blank before it."""
_RANKS: Final = {character: rank for rank, character in enumerate(f" {_ORDER}")}


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    source: str
    computed_hash: str = ""


class _Lock(msgspec.Struct, frozen=True):
    skills: Mapping[str, _Entry]


class NpxSkill(NamedTuple):
    """A skill that `npx skills` has in a lock."""

    name: str
    folders: tuple[Path, ...]
    """Where it is, of the folders that skills are found in; copies and links alike."""
    source: str
    """As it names the place: `acme/skills`."""
    computed_hash: str
    """Empty where the lock has none."""

    def state(self) -> Literal["same", "changed", "missing", "unknown"]:
        """Compare what is there with its hash; `unknown` without one, and for names beyond ASCII."""
        found = {computed_hash(folder) for folder in self.folders}
        if not found:
            return "missing"
        if "" in found or not self.computed_hash:
            return "unknown"
        return "same" if found == {self.computed_hash} else "changed"


def read_npx_lock(base: Path, name: str = PROJECT_LOCK) -> tuple[NpxSkill, ...]:
    """Return what a lock beneath a project or a home folder has, by name; nothing where there is none.

    Raises LockFileError.
    """
    file = base / name
    try:
        raw = read_beneath(base, name, _MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise LockFileError(file, f"it has more than {_MAX_BYTES:,} bytes")
        lock = msgspec.json.decode(raw, type=_Lock)
    except FileNotFoundError:
        return ()
    except (msgspec.DecodeError, RecursionError) as error:
        raise LockFileError(file, f"it cannot be read: {error}") from error
    except OSError as error:
        raise LockFileError(file, error.strerror or str(error)) from error
    for skill in lock.skills:
        if not _NAME.fullmatch(skill):
            raise LockFileError(file, f"{visible_line(skill) or 'an empty text'} is no name of a skill")
    return tuple(_skill(base, name, lock.skills[name]) for name in sorted(lock.skills))


def computed_hash(folder: Path) -> str:
    """Return the `computedHash` of a folder; empty for names beyond ASCII: their order is not known here.

    Raises OSError.
    """
    paths = list(_files(folder, ""))
    if not all(path.isascii() and path.isprintable() for path in paths):
        return ""
    content = hashlib.sha256()
    for path in sorted(paths, key=_key):
        content.update(path.encode())
        with open(open_beneath(folder, path, follow=False), "rb") as file:  # noqa: PTH123 - a descriptor
            while piece := file.read(1 << 20):
                content.update(piece)
    return content.hexdigest()


def _skill(base: Path, name: str, entry: _Entry) -> NpxSkill:
    places = [base / folder / name for folder in STANDARD_FOLDERS]
    folders = tuple(each for each in places if each.is_dir())
    return NpxSkill(name, folders, entry.source, entry.computed_hash)


def _files(folder: Path, prefix: str) -> Iterator[str]:
    with os.scandir(folder / prefix) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if each.name not in _SKIPPED:
                    yield from _files(folder, f"{prefix}{each.name}/")
            elif each.is_file(follow_symlinks=False):
                yield f"{prefix}{each.name}"


def _key(path: str) -> tuple[list[int], list[bool]]:
    return [_RANKS[each] for each in path.lower()], [each.isupper() for each in path]
