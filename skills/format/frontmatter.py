"""Find and read the frontmatter of a SKILL.md: leniently, in bounded time, from its first bytes alone."""

import codecs
import re
from typing import Final, NamedTuple

from skills_agent.skills.format.parsed import Frontmatter
from skills_agent.skills.format.rules import Finding, FrontmatterError
from skills_agent.skills.text import clean_lines

MAX_FRONTMATTER_BYTES: Final = 16 * 1024
"""Eight times the largest of 2,532 real files; checked before YAML sees a byte."""
HEAD_BYTES: Final = MAX_FRONTMATTER_BYTES + 512
"""How much of a file shows its frontmatter, fences and all."""
MAX_DESCRIPTION: Final = 1024
"""Characters of a description that is made of a paragraph, as in the specification."""
_OPENING: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?(?P<before>\s*)---[ \t]*(?:\r\n|\n|\r)")
_CLOSING: Final = re.compile(rb"[\r\n]---[ \t]*(?:\r\n|\n|\r|\Z)")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_HEADING: Final = re.compile(r"(?m)^#+ .*$")
_FENCED: Final = re.compile(r"(?ms)^(```+|~~~+).*?(?:^\1|\Z)")
_BLANK_LINES: Final = re.compile(r"\n[ \t]*\n")
_PARAGRAPH: Final = re.compile(r"(?![#>|`~<\-*+=]|!?\[|\d+[.)] )\S")
"""No heading, quotation, table, fence, list, markup, image or link alone."""


class Split(NamedTuple):
    """Where the frontmatter of a file is."""

    frontmatter: bytes
    """The text between the fences, as written."""
    first_line: int
    """1-based line of the file on which it begins."""
    body_start: int
    """Offset in bytes of the text after the closing fence."""


def split(head: bytes) -> Split:
    """Find the frontmatter in the first `HEAD_BYTES` of a file (more does no harm).

    A BOM, CRLF, blanks after a fence and a closing fence at the end of the file are all right. Raises
    FrontmatterError: there is none, it is not closed, or it is over the limit.
    """
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
        message = f"The frontmatter is over {MAX_FRONTMATTER_BYTES:,} bytes."
        raise _refusal("frontmatter-too-large", message)
    raise _refusal("frontmatter-unclosed", "The frontmatter has no closing `---`.")


def first_paragraph(markdown: bytes) -> str:
    """Return the first paragraph of plain text, else the first heading, as a description; or nothing.

    The end may be cut off within a character. Raises FrontmatterError where it is not UTF-8.
    """
    try:
        written, _ = codecs.utf_8_decode(markdown)
    except UnicodeDecodeError as error:
        raise _refusal("skill-undecodable", f"Not UTF-8 text: {error.reason}.") from error
    text = _FENCED.sub("", clean_lines(written.removeprefix("\ufeff")).text)
    blocks = (block.strip() for block in _BLANK_LINES.split(_HEADING.sub("", text)))
    headings = (heading[0].lstrip("# ") for heading in _HEADING.finditer(text))
    plain = next((block for block in blocks if _PARAGRAPH.match(block)), "") or next(headings, "")
    return " ".join(plain.split())[:MAX_DESCRIPTION]


def body_start(raw: bytes) -> int:
    """Return where the instructions of a file begin: below the frontmatter, or at once where there is none.

    Raises FrontmatterError.
    """
    try:
        return split(raw).body_start
    except FrontmatterError as error:
        if error.finding.code == "frontmatter-missing":
            return 0
        raise


def parse(frontmatter: bytes, first_line: int = 2) -> Frontmatter:
    """Read the fields of what `split` found; where the YAML is invalid, repair it key by key and report it.

    Raises FrontmatterError: not UTF-8, no mapping, too deep, or with anchors, aliases, tags or directives.
    """
    try:
        written = frontmatter.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refusal("skill-undecodable", f"Not UTF-8 text: {error.reason}.") from error
    text, removed = clean_lines(written)
    findings: list[Finding] = []
    if removed:
        message = f"Invisible characters were removed from the frontmatter ({removed})."
        findings.append(Finding("invisible-characters", message, first_line))
    # Where an index knows all skills, nothing is read, and the import of PyYAML is not waited for.
    from skills_agent.skills.format.yaml_text import read_or_repair  # noqa: PLC0415

    reading = read_or_repair(text, first_line)
    return reading._replace(findings=(*findings, *reading.findings)) if findings else reading


def _refusal(code: str, message: str) -> FrontmatterError:
    return FrontmatterError(Finding(code, message, 1))
