"""Files of a skill beside its SKILL.md, as its snapshot has them."""

from typing import Final

from skills_agent.skills.confined import ConfinedError, OutsideRootError, read_at_most
from skills_agent.skills.errors import (
    ResourceNotTextError,
    SkillError,
    SkillUnreadableError,
    list_names,
)
from skills_agent.skills.library.contents import list_resources
from skills_agent.skills.library.registry import Registry, file_name
from skills_agent.skills.skill import ResourceListing, SkillRef
from skills_agent.skills.sources.directory import list_files
from skills_agent.skills.text import cause_of, clean_lines
from skills_agent.skills.text_diff import text_of

MAX_RESOURCE_BYTES: Final = 1_000_000


def read_resource(registry: Registry, ref: SkillRef, path: str, limit: int = MAX_RESOURCE_BYTES) -> str:
    """Return a text file of a skill: line ends normalised, invisible characters removed.

    Raises as `read_bytes` does, and ResourceNotTextError.
    """
    raw = read_bytes(registry, ref, path, limit)
    text = text_of(raw)
    if text is None:
        raise ResourceNotTextError(ref.name, path, len(raw))
    return clean_lines(text).text


def read_bytes(registry: Registry, ref: SkillRef, path: str, limit: int = MAX_RESOURCE_BYTES) -> bytes:
    """Return a file of a skill as it is.

    Raises as `snapshot` does, and SkillError: not there, outside, unreadable, over `limit` bytes.
    """
    folder, relative = registry.file_of(ref, path)
    try:
        return read_at_most(folder, relative, limit)
    except OSError as error:
        raise not_read(registry, ref, path, error) from error


def not_read(registry: Registry, ref: SkillRef, path: str, error: OSError, kind: str = "file") -> SkillError:
    """Return why a file, or a `script`, of a skill cannot be opened. Raises as `resources` does."""
    if isinstance(error, OutsideRootError):
        told = "Use a path relative to it."
        return SkillError(f"{path!r} is not inside the folder of skill {ref.name}. {told}")
    if isinstance(error, FileNotFoundError | NotADirectoryError | ConfinedError):
        listed = resources(registry, ref).resources
        known = list_names([each.path for each in listed if kind in {"file", each.type}])
        return SkillError(f"Skill {ref.name} has no {kind} {path!r}. Its {kind}s: {known}.")
    return SkillError(f"Cannot read {path} of skill {ref.name}: {cause_of(error)}.")


def resources(registry: Registry, ref: SkillRef) -> ResourceListing:
    """List the files of a skill other than its SKILL.md, reading none. Raises as `snapshot` does."""
    folder = registry.snapshot(ref).folder
    try:
        return list_resources(list_files(folder, file_name(ref)))
    except OSError as error:
        raise SkillUnreadableError(ref.path, cause_of(error)) from error
