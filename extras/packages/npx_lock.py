"""The locks of `npx skills` (1.7), read: what it installed here, from where, and if that is there still.

A project has `skills-lock.json`, and the home folder `.agents/.skill-lock.json`. The skills are in
`.agents/skills/NAME`, or in the folder of the one agent that `-a` named: `.claude/skills/NAME`. Its hash is
not compared: path and bytes stand in it with nothing between, so it vouches for nothing, and its own tool
never checks it. Only a skill's digest does.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from skills_agent.packages.errors import LockFileError
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.sources.directory import STANDARD_FOLDERS
from skills_agent.skills.visible import visible_line

PROJECT_LOCK: Final = "skills-lock.json"
USER_LOCK: Final = ".agents/.skill-lock.json"
_MAX_BYTES: Final = 8_000_000
_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,254}")


class _Entry(msgspec.Struct, frozen=True):
    source: str


class _Lock(msgspec.Struct, frozen=True):
    skills: Mapping[str, _Entry]


class NpxSkill(NamedTuple):
    """A skill that `npx skills` has in a lock."""

    name: str
    folders: tuple[Path, ...]
    """Where it is, of the folders that skills are found in; copies and links alike."""
    source: str
    """As it names the place: `acme/skills`."""


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


def _skill(base: Path, name: str, entry: _Entry) -> NpxSkill:
    places = [base / folder / name for folder in STANDARD_FOLDERS]
    folders = tuple(each for each in places if each.is_dir())
    return NpxSkill(name, folders, entry.source)
