"""Find and read the frontmatter of a SKILL.md: leniently, in bounded time, from its first bytes alone."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from skills_agent.skills.format.plain_yaml import read_plain
from skills_agent.skills.format.rules import Finding, FrontmatterError
from skills_agent.skills.format.yaml_result import Value, YamlText
from skills_agent.skills.text import clean_text, is_clean, normalize_line_ends

MAX_FRONTMATTER_BYTES: Final = 16 * 1024
"""Eight times the largest of 2,532 real files; checked before YAML sees a byte."""
HEAD_BYTES: Final = MAX_FRONTMATTER_BYTES + 512
"""How much of a file shows its frontmatter, fences and all."""

_PLAIN_FENCE: Final = b"---\n"
_PLAIN_CLOSING: Final = b"\n---\n"
_OPENING = re.compile(rb"\A(?:\xef\xbb\xbf)?(?P<before>\s*)---[ \t]*(?:\r\n|\n|\r)")
_CLOSING = re.compile(rb"[\r\n]---[ \t]*(?:\r\n|\n|\r|\Z)")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Split(NamedTuple):
    """Where the frontmatter of a file is."""

    frontmatter: bytes
    """What stands between the fences, as written."""
    first_line: int
    """1-based line of the file on which it begins."""
    body_start: int
    """Offset in bytes of what follows the closing fence."""


class Frontmatter(NamedTuple):
    """The fields of a frontmatter, the line of each, and what was odd."""

    fields: Mapping[str, Value]
    lines: Mapping[str, int]
    findings: tuple[Finding, ...]


def split(head: bytes) -> Split:
    """Find the frontmatter in the first `HEAD_BYTES` of a file (more does no harm).

    A BOM, CRLF, blanks after a fence and a closing fence at the end of the file are all right.

    Raises:
        FrontmatterError: there is none, it is not closed, or it is over the limit.
    """
    plain = _split_plain(head)
    if plain is not None:
        return plain
    opening = _OPENING.match(head[:HEAD_BYTES])
    if opening is None:
        raise _refusal("frontmatter-missing", "The file does not start with frontmatter (`---`).")
    start = opening.end()
    # The line end of the opening fence is also that before a closing fence right below it.
    closing = _CLOSING.search(head, start - 1, start + MAX_FRONTMATTER_BYTES + 128)
    if closing is not None and closing.start() - start <= MAX_FRONTMATTER_BYTES:
        first_line = 2 + len(_LINE_END.findall(opening["before"]))
        return Split(head[start : closing.start() + 1], first_line, closing.end())
    if len(head) - start > MAX_FRONTMATTER_BYTES:
        raise _too_large()
    raise _refusal("frontmatter-unclosed", "The frontmatter has no closing `---`.")


def _split_plain(head: bytes) -> Split | None:
    """Find the frontmatter between two bare fences, as most files have it; None where it takes more care."""
    end = head.find(_PLAIN_CLOSING, len(_PLAIN_FENCE) - 1, MAX_FRONTMATTER_BYTES)
    if end < 0 or not head.startswith(_PLAIN_FENCE):
        return None
    frontmatter = head[len(_PLAIN_FENCE) : end + 1]
    # Another fence may stand before this one: with blanks after it, or between other line ends.
    if b"\r" in frontmatter or b"\n---" in frontmatter or frontmatter.startswith(b"---"):
        return None
    return Split(frontmatter, 2, end + len(_PLAIN_CLOSING))


def parse(frontmatter: bytes, first_line: int = 2) -> Frontmatter:
    """Read the fields; where the YAML is invalid, repair it key by key and say so.

    Raises:
        FrontmatterError: over the limit, not UTF-8, no mapping, too deep, or with anchors, aliases, tags
            or directives.
    """
    if len(frontmatter) > MAX_FRONTMATTER_BYTES:
        raise _too_large()
    try:
        written = frontmatter.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refusal("skill-undecodable", f"Not UTF-8 text: {error.reason}.") from error
    text, removed = (written, 0) if is_clean(frontmatter) else clean_text(normalize_line_ends(written))
    findings: list[Finding] = []
    if removed:
        message = f"Invisible characters were removed from the frontmatter ({removed})."
        findings.append(Finding("invisible-characters", message, first_line))
    reading = read_plain(text, first_line) or _read_any(text, first_line)
    if reading.value is not None and not isinstance(reading.value, dict):
        raise _refusal("frontmatter-not-mapping", "The frontmatter has no `key: value` lines.")
    return Frontmatter(reading.value or {}, reading.lines, (*findings, *reading.findings))


def _read_any(text: str, first_line: int) -> YamlText:
    # Importing PyYAML takes as long as reading 500 plain files, which do not need it.
    import yaml  # noqa: PLC0415

    from skills_agent.skills.format.repair import cause_of, repair  # noqa: PLC0415
    from skills_agent.skills.format.yaml_text import read_yaml  # noqa: PLC0415

    try:
        return read_yaml(text, first_line)
    except yaml.YAMLError as error:
        return repair(text, first_line, cause_of(error))


def _refusal(code: str, message: str) -> FrontmatterError:
    return FrontmatterError(Finding(code, message, 1))


def _too_large() -> FrontmatterError:
    return _refusal("frontmatter-too-large", f"The frontmatter is over {MAX_FRONTMATTER_BYTES:,} bytes.")
