"""`skills.lock`: what is installed in a folder of skills, from where, and the digest of each file.

It lies in that folder and is TOML, made to be read in a diff: sorted, one line for each file, no date that
changes without the skill. It records what was shown when somebody said yes. It vouches for nothing: who can
write it can write the skills, so trust goes by the digest (policy/trust.py) or by a signature.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec
import tomli_w

from skills_agent.packages.errors import PackageError
from skills_agent.skills.confined import read_at_most
from skills_agent.skills.errors import did_you_mean
from skills_agent.skills.format.rules import is_spec_name
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.visible import visible_line

LOCK_FILE: Final = "skills.lock"
VERSION: Final = 1
MAX_BYTES: Final = 32_000_000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_HEAD: Final = (
    "# What is installed here, and from where. To check it:\n# skills-agent skills install --locked --check\n"
)


class Proposed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a skill is from that the agent proposed, and a person accepted."""

    thread: str
    """The thread that it was learned in."""
    model: str = ""
    reason: str = ""
    """In the words of the model."""
    call: str = ""
    """The key of the call: a second attempt at it does nothing that the first has done."""


class LockedSkill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One installed skill."""

    name: str
    """Also that of its folder."""
    source: str
    """The address as it was typed; of a folder or file of the machine, relative to the lock's folder."""
    path: str = ""
    """The skill's folder in the source."""
    resolved: str = ""
    """What the address meant then: a commit, or the URL of the archive; empty for a folder."""
    digest: str
    """Of the skill (docs/skills.md has the rule): 64 hexadecimal digits."""
    version: str = ""
    """As its frontmatter says."""
    signer: str = ""
    """Who had signed it when it was installed, as the file of allowed signers names them."""
    installed: str = ""
    """When: ISO 8601 in UTC, to the second."""
    manifest: str = ""
    """SHA-256 of its `.skill-manifest.json`, which no digest covers; empty for none."""
    # Tables stand behind what is none.
    proposed: Proposed | None = None
    """None for a skill that was installed from somewhere."""
    files: Mapping[str, str] = msgspec.field(default_factory=dict)
    """SHA-256 of each file by its path; with ` exec` after it where it may be run, ` link` of a link."""

    @property
    def origin(self) -> str:
        """Return where it is from, in words."""
        return self.source if self.proposed is None else f"proposed in thread {self.proposed.thread}"


def is_digest(text: str) -> bool:
    """Return whether a text is a digest of a skill, and no sentence that says why there is none."""
    return _DIGEST.fullmatch(text) is not None


Lock = Mapping[str, LockedSkill]
"""What a lock holds, by name."""


def lock_text(skills: Lock) -> str:
    """Return the content of the file."""
    ordered = sorted(skills.values(), key=attrgetter("name"))
    tables = msgspec.to_builtins(ordered, order="deterministic")
    return _HEAD + tomli_w.dumps({"version": VERSION, "skill": tables}, multiline_strings=True)


def chosen(lock: Lock, names: Iterable[str]) -> list[LockedSkill]:
    """Return skills of a lock, by default all, by name. Raises PackageError for one that it does not have."""
    wanted = sorted(set(names) or lock)
    if unknown := next((each for each in wanted if each not in lock), ""):
        hint = did_you_mean(unknown, lock) or "So nothing says what it should be."
        raise PackageError(f"skills.lock does not have {unknown}. {hint}")
    return [lock[name] for name in wanted]


def read_expected_lock(folder: Path) -> Lock:
    """Return the lock of a folder that is held against it. Raises PackageError.

    One that is missing where skills are is an error: whoever can delete it changes them, too.
    """
    if not (folder / LOCK_FILE).exists() and any(folder.glob(f"*/{SKILL_FILE}")):
        why = "it is missing, so nothing says what has to be here; take it from version control, or install"
        raise _unusable(folder / LOCK_FILE, f"{why} the skills again")
    return read_lock(folder)


def read_lock(folder: Path) -> Lock:
    """Return the lock of a folder of skills; an empty one where there is none. Raises PackageError."""
    file = folder / LOCK_FILE
    try:
        return parse_lock(read_at_most(folder, LOCK_FILE, MAX_BYTES, follow=False), file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unusable(file, error.strerror or str(error)) from error


def parse_lock(raw: bytes, file: Path) -> Lock:
    """Read what a file holds. Raises PackageError."""
    try:
        read = tomllib.loads(raw.decode())
        version = read.get("version")
        if isinstance(version, int) and version > VERSION:
            raise _unusable(file, "it was written by a newer version of skills-agent: use that one")
        if version != VERSION or isinstance(version, bool):
            raise _unusable(file, f"it does not hold version {VERSION} of a lock")
        skills = msgspec.convert(read.get("skill", []), list[LockedSkill])
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, and of a value that does not fit
        raise _unusable(file, f"it cannot be read: {visible_line(str(error))}") from error
    for skill in skills:
        if not is_spec_name(skill.name):
            raise _unusable(file, f"{visible_line(skill.name)} is no name of a skill")
        if not is_digest(skill.digest):
            raise _unusable(file, f"the digest of {skill.name} is none")
    by_name = {skill.name: skill for skill in skills}
    if len(by_name) < len(skills):
        raise _unusable(file, "it has two skills of one name")
    return by_name


def _unusable(file: Path, reason: str) -> PackageError:
    return PackageError(f"Cannot use {file}: {reason}.")
