"""Read a SKILL.md: its first bytes give the metadata that discovery needs, all of it gives the skill."""

import codecs
import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.skills.errors import SkillError
from skills_agent.skills.format.fields import read_fields
from skills_agent.skills.format.frontmatter import (
    HEAD_BYTES,
    Split,
    body_start,
    first_paragraph,
    parse,
    split,
)
from skills_agent.skills.format.parsed import Frontmatter
from skills_agent.skills.format.rules import (
    Finding,
    FrontmatterError,
    check_fields,
    check_instructions,
    diagnostic,
    one_note,
)
from skills_agent.skills.format.values import name_from_folder
from skills_agent.skills.skill import MCP_LABEL, Diagnostic, Skill, SkillMetadata
from skills_agent.skills.text import clean_lines, clean_text

_FOLDER_VARIABLE: Final = re.compile(
    r"\$\{(?:CLAUDE_SKILL_DIR|SKILL_DIR|(?P<plugin>CLAUDE_PLUGIN_ROOT))\}|\{(?:baseDir|SKILL_DIR)\}"
)
_LINE_END: Final = re.compile(rb"\r\n?|\n")
_FIRST_LINE: Final = 2
"""Of the frontmatter, in a file that starts with its fence."""


class SkillPath(NamedTuple):
    """Where a SKILL.md stands."""

    source: str
    path: str
    folder: str
    trusted: bool = True
    """Whether the operator vouches for the source."""


class ReadMetadata(NamedTuple):
    """The metadata in the first bytes of a SKILL.md; None when the skill is skipped."""

    metadata: SkillMetadata | None
    diagnostics: tuple[Diagnostic, ...]


def read_metadata(head: bytes, place: SkillPath, *, block_angle_brackets: bool = False) -> ReadMetadata:
    """Read the frontmatter in the first `HEAD_BYTES` of a file and hold it to the rules.

    Without any, or without a description in it, the first paragraph is the description.
    """
    try:
        parts, frontmatter = _parsed(head, place)
    except FrontmatterError as error:
        return ReadMetadata(None, (diagnostic(error.finding, place.path),))
    if block_angle_brackets and (b"<" in parts.frontmatter or b">" in parts.frontmatter):
        refusal = Finding("angle-brackets-refused", "The frontmatter has `<` or `>` in it.", _FIRST_LINE)
        return ReadMetadata(None, (diagnostic(refusal, place.path),))
    findings = []
    if parts.first_line > _FIRST_LINE:
        findings.append(Finding("frontmatter-not-first", "There are blank lines before the frontmatter.", 1))
    if head.startswith(codecs.BOM_UTF8):
        findings.append(Finding("byte-order-mark", "The file starts with a byte order mark.", 1))
    findings += frontmatter.findings
    fields = read_fields(frontmatter, findings)
    if not fields.get("description") and (made := _described_by(head[parts.body_start :])):
        fields["description"] = made
        line = frontmatter.lines.get("description")
        findings.append(Finding("description-made", "The description is the first paragraph.", line))
    name, description = fields.get("name"), fields.get("description", "")
    findings += check_fields(name, description, place.folder, frontmatter.lines)
    diagnostics = tuple([diagnostic(finding, place.path) for finding in findings])
    if any(each.severity == "error" for each in diagnostics):
        return ReadMetadata(None, diagnostics)
    fields["name"] = name or name_from_folder(place.folder)
    if place.source.startswith(MCP_LABEL):  # a server permits nothing, whoever vouches for its skill
        fields["allowed_tools"] = None
    metadata = SkillMetadata(
        source=place.source,
        path=place.path,
        folder=place.folder,
        trusted=place.trusted,
        digest=hashlib.sha256(parts.frontmatter).hexdigest(),
        **fields,
    )
    return ReadMetadata(metadata, diagnostics)


def _parsed(head: bytes, place: SkillPath) -> tuple[Split, Frontmatter]:
    """Return the frontmatter of a file, or what stands in for it. Raises FrontmatterError."""
    try:
        parts = split(head)
    except FrontmatterError as error:
        if error.finding.code != "frontmatter-missing" or not (paragraph := first_paragraph(head)):
            raise
        fields = {"name": name_from_folder(place.folder), "description": paragraph}
        message = "There is no frontmatter: the name is the folder's, the description the first paragraph."
        return Split(head, 1, 0), Frontmatter(fields, {}, (Finding("frontmatter-made", message, 1),))
    return parts, parse(parts.frontmatter, parts.first_line)


def _described_by(body: bytes) -> str:
    with suppress(FrontmatterError):  # reading the instructions says that they are not UTF-8
        return first_paragraph(body)
    return ""


def read_skill(
    raw: bytes,
    place: SkillPath,
    root: Path | None,
    limit: int,
    *,
    plugin: Path | None = None,
    block_angle_brackets: bool = False,
) -> Skill:
    """Read a whole SKILL.md of at most `limit` bytes.

    Variables that other clients replace by the path of the skill's folder, or of its `plugin`, become that
    path; without a plugin both are `root`. Raises SkillError for one that is too large, no text or no skill.
    """
    if len(raw) > limit:
        size = f"{len(raw):,} bytes, over the limit of {limit:,}"
        raise SkillError(f"{place.path} is {size}. Move detail into references/.", code="skill-too-large")
    head = raw[:HEAD_BYTES]
    metadata, diagnostics = read_metadata(head, place, block_angle_brackets=block_angle_brackets)
    if metadata is None:
        raise invalid(place, " ".join(each.message for each in diagnostics if each.severity == "error"))
    findings: list[Finding] = []
    try:
        instructions = read_body(raw, findings).strip("\n")
    except FrontmatterError as error:
        raise invalid(place, str(error)) from error
    if root is not None:
        instructions = _FOLDER_VARIABLE.sub(
            lambda variable: str(plugin if plugin and variable["plugin"] else root), instructions
        )
    return Skill(
        metadata=metadata,
        instructions=instructions,
        digest=hashlib.sha256(raw).hexdigest(),
        lines=instructions.count("\n") + 1 if instructions else 0,
        diagnostics=one_note((*diagnostics, *(diagnostic(finding, place.path) for finding in findings))),
    )


def invalid(place: SkillPath, cause: str) -> SkillError:
    """Return the error for a SKILL.md that is none of a valid skill."""
    return SkillError(f"{place.path} is not a valid skill: {cause}", code="skill-invalid")


def read_body(raw: bytes, findings: list[Finding]) -> str:
    """Return the instructions below the frontmatter, cleaned; what was odd is added to the findings.

    Raises FrontmatterError where they are not UTF-8.
    """
    start = body_start(raw)
    try:
        written = raw[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"Not UTF-8 text: {error.reason} at byte {error.start:,}."
        raise FrontmatterError(Finding("skill-undecodable", message)) from error
    text, removed = clean_lines(written)
    findings += check_instructions(text, 1 + len(_LINE_END.findall(raw, 0, start)))
    if removed:
        message = f"Invisible characters were removed from the instructions ({removed})."
        findings.append(Finding("invisible-characters", message))
    return text


def read_instructions(start: bytes) -> str:
    """Return the instructions in the first bytes of a file, to be searched; none where it is no skill."""
    try:
        begin = body_start(start)
    except FrontmatterError:
        return ""
    return clean_text(start[begin:].decode("utf-8", "ignore")).text
