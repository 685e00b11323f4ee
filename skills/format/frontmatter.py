"""Find and read the frontmatter of a SKILL.md: leniently, in bounded time, from its first bytes alone.

Most real files hold nothing but `key: text` lines, lists of texts and mappings of texts. They are read here,
in a fifth of the time that PyYAML takes. Measured with 1,000 skills, against reading 4 KB of each file and
giving its frontmatter to yaml.CSafeLoader: a first discovery takes 1.1 times as long with this reader, 1.6
times without it, and 2.5 times with the import of PyYAML. yaml_text.py reads all other text; a property test
holds the two to the same answers.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from skills_agent.skills.format.rules import Finding, FrontmatterError
from skills_agent.skills.text import clean_text, is_clean, normalize_line_ends

MAX_FRONTMATTER_BYTES: Final = 16 * 1024
"""Eight times the largest of 2,532 real files; checked before YAML sees a byte."""
HEAD_BYTES: Final = MAX_FRONTMATTER_BYTES + 512
"""How much of a file shows its frontmatter, fences and all."""
NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""Unquoted scalars that mean nothing."""

_OPENING: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?(?P<before>\s*)---[ \t]*(?:\r\n|\n|\r)")
_CLOSING: Final = re.compile(rb"[\r\n]---[ \t]*(?:\r\n|\n|\r|\Z)")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_USUAL_KEYS: Final = frozenset({"name", "description", "license", "allowed-tools", "metadata", "version"})
"""These need no closer look."""
_INDENT: Final = "  "
_LIST_MARK: Final = "- "

Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"


class Split(NamedTuple):
    """Where the frontmatter of a file is."""

    frontmatter: bytes
    """The text between the fences, as written."""
    first_line: int
    """1-based line of the file on which it begins."""
    body_start: int
    """Offset in bytes of the text after the closing fence."""


class YamlText(NamedTuple):
    """A document, the line of each key of its top mapping, and what was odd."""

    value: Value
    lines: dict[str, int]
    findings: list[Finding]


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


def parse(frontmatter: bytes, first_line: int = 2) -> Frontmatter:
    """Read the fields; where the YAML is invalid, repair it key by key and report it.

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
    reading = read_plain(text, first_line)
    if reading is None:
        # Importing PyYAML takes as long as reading 500 plain files, which do not need it.
        from skills_agent.skills.format.yaml_text import read_or_repair  # noqa: PLC0415

        reading = read_or_repair(text, first_line)
    if reading.value is not None and not isinstance(reading.value, dict):
        raise _refusal("frontmatter-not-mapping", "The frontmatter has no `key: value` lines.")
    return Frontmatter(reading.value or {}, reading.lines, (*findings, *reading.findings))


def read_plain(text: str, first_line: int) -> YamlText | None:
    """Read a text as YAML would, if it is of the plain form; None if it is not."""
    if "\t" in text:
        return None
    fields: dict[str, Value] = {}
    lines: dict[str, int] = {}
    parent: str | None = None
    try:
        for number, line in enumerate(text.split("\n"), first_line):
            if not line:
                continue
            if line.startswith(_INDENT):
                if parent is None:
                    return None
                fields[parent] = _with_line(fields[parent], line[len(_INDENT) :])
                continue
            key, written = _split_line(line, fields)
            lines[key] = number
            fields[key] = _scalar(written)
            parent = None if written else key
    except _NotPlainError:
        return None
    return YamlText(fields or None, lines, [])


class _NotPlainError(Exception):
    """The text has to be read as YAML."""


def _with_line(value: Value, line: str) -> Value:
    """Add one line to the list or mapping that stands below a key."""
    if line.startswith(_LIST_MARK):
        items = [] if value is None else value
        if not isinstance(items, list):
            raise _NotPlainError
        items.append(_scalar(line[len(_LIST_MARK) :].strip(" ")))
        return items
    mapping = {} if value is None else value
    if not isinstance(mapping, dict):
        raise _NotPlainError
    key, written = _split_line(line, mapping)
    if not written:  # the lines below may be deeper
        raise _NotPlainError
    mapping[key] = _scalar(written)
    return mapping


def _split_line(line: str, earlier: Mapping[str, Value]) -> tuple[str, str]:
    key, colon, rest = line.partition(":")
    if not colon or (rest and rest[0] != " ") or key in earlier:
        raise _NotPlainError
    if key not in _USUAL_KEYS and (key in NULL or not _KEY.fullmatch(key)):
        raise _NotPlainError
    return key, rest.strip(" ")


def _scalar(written: str) -> str | None:
    if not written:
        return None
    first = written[0]
    if first.isalnum():
        if ": " in written or " #" in written or written[-1] == ":":
            raise _NotPlainError
        return None if written in NULL else written
    inner = written[1:-1]
    if first not in "\"'" or len(written) == 1 or written[-1] != first or first in inner or "\\" in inner:
        raise _NotPlainError
    return inner


def _refusal(code: str, message: str) -> FrontmatterError:
    return FrontmatterError(Finding(code, message, 1))


def _too_large() -> FrontmatterError:
    return _refusal("frontmatter-too-large", f"The frontmatter is over {MAX_FRONTMATTER_BYTES:,} bytes.")
