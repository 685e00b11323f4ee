"""Read the plain part of YAML that most frontmatter keeps to, without a YAML parser.

Most real files hold nothing but `key: text` lines, lists of texts and mappings of texts. Reading those by
hand takes a fifth of the time, and parsing is most of what discovery costs. Whatever is not plainly of that
form is left to yaml_text.py; a property test holds the two to the same answers.
"""

import re
from typing import Final

from skills_agent.skills.format.yaml_result import NULL, Value, YamlText

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_KEYS: Final = frozenset({"name", "description", "license", "allowed-tools", "metadata", "version"})
"""The usual ones, which need no closer look."""
_INDENT: Final = "  "
_LIST_MARK: Final = "- "


class _NotPlainError(Exception):
    """The text has to be read as YAML."""


def read_plain(text: str, first_line: int) -> YamlText | None:
    """Read a text as YAML would, if it is of the plain form; None if it is not."""
    if "\t" in text:
        return None
    fields: dict[str, Value] = {}
    lines: dict[str, int] = {}
    below: str | None = None
    try:
        for number, line in enumerate(text.split("\n"), first_line):
            if not line:
                continue
            if line.startswith(_INDENT):
                if below is None:
                    return None
                fields[below] = _with_line(fields[below], line[len(_INDENT) :])
                continue
            key, written = _split_line(line, fields)
            lines[key] = number
            fields[key] = _scalar(written)
            below = None if written else key
    except _NotPlainError:
        return None
    return YamlText(fields or None, lines, [])


def _with_line(value: Value, line: str) -> Value:
    """Add one line to the list or mapping that stands below a key."""
    if line.startswith(_LIST_MARK):
        item = _scalar(line[len(_LIST_MARK) :].strip(" "))
        if value is None:
            return [item]
        if isinstance(value, list):
            value.append(item)
            return value
        raise _NotPlainError
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise _NotPlainError
    key, written = _split_line(line, value)
    if not written:  # what stands below may be deeper
        raise _NotPlainError
    value[key] = _scalar(written)
    return value


def _split_line(line: str, taken: dict[str, Value]) -> tuple[str, str]:
    key, colon, rest = line.partition(":")
    if not colon or (rest and rest[0] != " ") or key in taken:
        raise _NotPlainError
    if key not in _KEYS and (key in NULL or not _KEY.fullmatch(key)):
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
