"""What the files of a skill say about Python packages: requirements, pyproject.toml, PEP 723, `pip install`.

Only names with versions are taken. What a file says beside them (an index, a path, an address, an option) is
not: where packages come from is the person's to say.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Final

from skills_agent.needs.declared import need_of
from skills_agent.skills.scripts.interpreter import inline_dependencies
from skills_agent.skills.skill import Need

_MAX_LINES: Final = 2000
_LONGEST: Final = 500
"""Characters of one requirement."""
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_HASHES: Final = re.compile(r"\s--hash\b.*|\s*\\$")


def requirements_in(text: str, file: str) -> Iterator[Need]:
    """Yield the needs that the lines of a requirements file name."""
    for number, line in enumerate(text.split("\n")[:_MAX_LINES], 1):
        plain = _HASHES.sub("", _COMMENT.sub("", line.rstrip())).strip()
        if plain and not plain.startswith("-") and (need := requirement(plain, f"{file}:{number}")):
            yield need


def project_needs(text: str, file: str) -> Iterator[Need]:
    """Yield the needs of a pyproject.toml: `[project] dependencies` and `requires-python`."""
    try:
        project = tomllib.loads(text).get("project")
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    table = project if isinstance(project, dict) else {}
    dependencies, least = table.get("dependencies"), table.get("requires-python")
    for each in dependencies[:_MAX_LINES] if isinstance(dependencies, list) else ():
        if isinstance(each, str) and (need := requirement(each, file)):
            yield need
    if isinstance(least, str) and (python := need_of("program", f"python{least}", file)):
        yield python


def script_needs(text: str, file: str) -> Iterator[Need]:
    """Yield the needs of a script's PEP 723 block."""
    for dependency in inline_dependencies(text)[:_MAX_LINES]:
        if need := requirement(dependency, file):
            yield need


def requirement(text: str, said: str) -> Need | None:
    """Return the need that a PEP 508 requirement means; None for one by address, or what is none."""
    # `skills list` reads no requirements.
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    if len(text) > _LONGEST or not text.isascii():
        return None
    try:
        parsed = Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None
    plain = need_of("python", parsed.name, said)
    if parsed.url or plain is None:
        return None
    extras = tuple(sorted(extra for extra in parsed.extras if need_of("python", extra, said)))
    marker = str(parsed.marker or "")
    return Need("python", plain.name, str(parsed.specifier), extras=extras, marker=marker, said=said)
