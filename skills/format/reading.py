"""Read a SKILL.md: from its first bytes what discovery needs, from all of it the skill."""

import codecs
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.errors import SkillInvalidError, SkillTooLargeError, SkillUndecodableError
from skills_agent.skills.format.fields import read_fields
from skills_agent.skills.format.frontmatter import parse, split
from skills_agent.skills.format.rules import (
    RULES,
    Finding,
    FrontmatterError,
    Strength,
    check_fields,
    check_instructions,
    diagnostic,
)
from skills_agent.skills.format.values import name_from_folder
from skills_agent.skills.skill import Diagnostic, Skill, SkillMetadata
from skills_agent.skills.text import clean_text, normalize_line_ends

_FOLDER_VARIABLE: Final = re.compile(
    r"\$\{(?:CLAUDE_SKILL_DIR|SKILL_DIR|CLAUDE_PLUGIN_ROOT)\}|\{(?:baseDir|SKILL_DIR)\}"
)
_LINE_END: Final = re.compile(rb"\r\n?|\n")

FIRST_LINE: Final = 2
"""Of the frontmatter, in a file that starts with its fence."""


class Place(NamedTuple):
    """Where a SKILL.md stands."""

    source: str
    path: str
    folder: str
    trusted: bool = True
    """Whether the operator vouches for the source."""


class ReadMetadata(NamedTuple):
    """What the first bytes of a SKILL.md say; no metadata when the skill is skipped."""

    metadata: SkillMetadata | None
    diagnostics: tuple[Diagnostic, ...]


class Body(NamedTuple):
    """The Markdown of a SKILL.md, cleaned, and what in it an author should know of."""

    text: str
    findings: tuple[Finding, ...]


def read_metadata(
    head: bytes, place: Place, *, strength: Strength = "lenient", block_angle_brackets: bool = False
) -> ReadMetadata:
    """Read the frontmatter in the first `HEAD_BYTES` of a file and hold it to the rules."""
    try:
        parts = split(head)
        if block_angle_brackets:
            _refuse_angle_brackets(parts.frontmatter)
        frontmatter = parse(parts.frontmatter, parts.first_line)
    except FrontmatterError as error:
        return ReadMetadata(None, (diagnostic(error.finding, place.path, strength),))
    fields = read_fields(frontmatter)
    name, description = fields.values.get("name"), fields.values.get("description", "")
    findings = [
        *_check_start(head, parts.first_line),
        *frontmatter.findings,
        *fields.findings,
        *check_fields(name, description, place.folder, frontmatter.lines),
    ]
    diagnostics = tuple(diagnostic(finding, place.path, strength) for finding in findings)
    if any(RULES[finding.code].lenient == "error" for finding in findings):
        return ReadMetadata(None, diagnostics)
    metadata = SkillMetadata(
        source=place.source,
        path=place.path,
        folder=place.folder,
        trusted=place.trusted,
        digest=hashlib.sha256(parts.frontmatter).hexdigest(),
        unknown_fields=fields.unknown,
        **{**fields.values, "name": name or name_from_folder(place.folder)},
    )
    return ReadMetadata(metadata, diagnostics)


def read_skill(
    raw: bytes, place: Place, root: Path | None, limit: int, *, block_angle_brackets: bool = False
) -> Skill:
    """Read a whole SKILL.md of at most `limit` bytes.

    Variables that other clients put for the skill's folder become its path. What was read lately from the
    same bytes is kept: every thread loads the same skills, and looks at every turn whether they changed.

    Raises:
        SkillTooLargeError, SkillUndecodableError, SkillInvalidError
    """
    read = _read_skill if len(raw) > _KEPT_BYTES else _read_skill_again
    return read(raw, place, root, limit, block_angle_brackets)


def _read_skill(raw: bytes, place: Place, root: Path | None, limit: int, block_angle_brackets: bool) -> Skill:
    if len(raw) > limit:
        raise SkillTooLargeError(place.path, len(raw), limit)
    read = read_metadata(raw, place, block_angle_brackets=block_angle_brackets)
    if read.metadata is None:
        errors = [found for found in read.diagnostics if found.severity == "error"]
        if any(found.code == "skill-undecodable" for found in errors):
            raise SkillUndecodableError(place.path, errors[0].message)
        raise SkillInvalidError(place.path, " ".join(found.message for found in errors))
    text, found_in_text = read_body(raw, place)
    diagnostics = (*read.diagnostics, *(diagnostic(finding, place.path) for finding in found_in_text))
    instructions = text.strip("\n")
    if root is not None:
        folder = str(root)
        instructions = _FOLDER_VARIABLE.sub(lambda _: folder, instructions)
    return Skill(
        metadata=read.metadata,
        instructions=instructions,
        digest=hashlib.sha256(raw).hexdigest(),
        lines=instructions.count("\n") + 1 if instructions else 0,
        root=root,
        diagnostics=diagnostics,
    )


_KEPT_BYTES: Final = 50_000
"""Of one SKILL.md: longer ones are rare."""
_read_skill_again = lru_cache(maxsize=64)(_read_skill)


def read_body(raw: bytes, place: Place) -> Body:
    """Read what stands below the frontmatter.

    Raises:
        SkillUndecodableError: it is not UTF-8.
    """
    start = split(raw).body_start
    try:
        written = raw[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise SkillUndecodableError(place.path, f"{error.reason} at byte {error.start:,}") from error
    text, removed = clean_text(normalize_line_ends(written))
    findings = list(check_instructions(text, 1 + len(_LINE_END.findall(raw, 0, start))))
    if removed:
        message = f"Invisible characters were removed from the instructions ({removed})."
        findings.append(Finding("invisible-characters", message))
    return Body(text, tuple(findings))


def read_instructions(start: bytes) -> str:
    """Return the instructions in the first bytes of a file, to be searched; none where it is no skill."""
    try:
        body_start = split(start).body_start
    except FrontmatterError:
        return ""
    return clean_text(start[body_start:].decode("utf-8", "ignore")).text


def _refuse_angle_brackets(frontmatter: bytes) -> None:
    if b"<" in frontmatter or b">" in frontmatter:
        raise FrontmatterError(
            Finding("angle-brackets-refused", "The frontmatter has `<` or `>` in it.", FIRST_LINE)
        )


def _check_start(head: bytes, first_line: int) -> Iterator[Finding]:
    if first_line > FIRST_LINE:
        yield Finding("frontmatter-not-first", "There are blank lines before the frontmatter.", 1)
    if head.startswith(codecs.BOM_UTF8):
        yield Finding("byte-order-mark", "The file starts with a byte order mark.", 1)
