"""Read YAML as nothing but texts, lists and mappings of texts, in bounded time, and repair what is invalid.

YAML is read event by event and never composed: a merge-key bomb of 547 bytes keeps PyYAML's composer and
constructor busy for 56 seconds. Anchors, aliases, tags and directives are refused as events; scalars stay
the text that was written, so `yes`, `1.0`, `2024-99-99` and a number of 5,000 digits are texts.

0.5 % of 4,419 real files are no valid YAML: colons in unquoted values, also over wrapped lines or with quotes
inside; values that begin with `@`, a backtick, `[`, `{`, `*` or `%`; tabs; text after a closing quote. There
each key is read on its own, and as written where it stays invalid: a fault in one must not cost the others.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from textwrap import dedent
from typing import Final, NamedTuple

import yaml

from skills_agent.skills.format.frontmatter import NULL, Frontmatter, Value
from skills_agent.skills.format.rules import Finding, FrontmatterError

MAX_DEPTH: Final = 12
_MAX_NESTED_REPAIRS: Final = 3
_LIST_MARK: Final = "- "
_BLOCK_HEADERS: Final = frozenset({"|", ">", "|-", ">-", "|+", ">+"})
_REPAIRS: Final = frozenset({"yaml-repaired", "yaml-line-dropped"})

# The C loader where PyYAML was built with it; `Base` because it resolves no types.
_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_KEY: Final = re.compile(
    r"""(?P<key>[A-Za-z_][\w.-]*|"[^"\n]+"|'[^'\n]+')[ \t]*:(?=[ \t]|$)[ \t]*(?P<rest>.*)"""
)
_LEADING_TABS: Final = re.compile(r"(?m)^([ ]*)(\t+)")
_CLOSED_WITHIN: Final = re.compile(r"""(["'])(?:(?!\1).)*[^\s\\]\1[\s,;:.](?=.*\1)""", re.DOTALL)
"""A text of which the first words are quoted and others follow: the quotes belong to the text."""


def read_or_repair(text: str, first_line: int) -> Frontmatter:
    """Read a text that begins at `first_line` of its file; where it is no valid YAML, each key on its own.

    Raises:
        FrontmatterError: it is unsafe or too deep, or no line of it is a key.
    """
    try:
        return read_yaml(text, first_line)
    except yaml.YAMLError as error:
        return _repair(text, first_line, _cause_of(error))


def read_yaml(text: str, first_line: int, depth: int = 0) -> Frontmatter:
    """Read the first document of a text that begins at `first_line` of its file, `depth` levels down.

    What is unsafe is refused only once the whole document has proved to be valid YAML: `*Use this* when`
    is no alias but a text that needs quotes.

    Raises:
        yaml.YAMLError: the text is no valid YAML, or a key in it is no text.
        FrontmatterError: it has anchors, aliases, tags or directives, or is too deep.
    """
    return _YamlReader(text, first_line).document(depth)


class _YamlReader:
    """One pass over the events of one document."""

    def __init__(self, text: str, first_line: int) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._first_line = first_line
        self._lines: dict[str, int] = {}
        self._findings: list[Finding] = []
        self._unsafe: Finding | None = None
        self._has_flow = False

    def document(self, depth: int) -> Frontmatter:
        value: Value = None
        for event in self._until(yaml.DocumentEndEvent):
            if isinstance(event, yaml.NodeEvent):
                value = self._value(event, depth)
            elif isinstance(event, yaml.DocumentStartEvent) and (event.version or event.tags):
                self._refuse("yaml-directive", "a directive", event)
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._report("yaml-line-dropped", "The text after the line `...` was not read.", event)
                break
        if self._unsafe is not None:
            raise FrontmatterError(self._unsafe)
        if value is not None and not isinstance(value, dict):
            message = "The frontmatter has no `key: value` lines."
            raise FrontmatterError(Finding("frontmatter-not-mapping", message, 1))
        return Frontmatter(value or {}, self._lines, tuple(self._findings))

    def _value(self, event: yaml.Event, depth: int) -> Value:
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            self._refuse("yaml-alias", "an alias", event)
            return None
        if event.anchor is not None:
            self._refuse("yaml-anchor", "an anchor", event)
        if event.tag is not None:
            self._refuse("yaml-tag", "a tag", event)
        if isinstance(event, yaml.ScalarEvent):
            return None if not event.style and event.value in NULL else str(event.value)
        if depth >= MAX_DEPTH:
            message = f"The frontmatter nests deeper than {MAX_DEPTH} levels."
            raise FrontmatterError(Finding("yaml-too-deep", message, self._line(event)))
        if event.flow_style and not self._has_flow:
            self._has_flow = True
            message = "A list or a mapping stands in brackets, which the reference validator does not read."
            self._report("yaml-flow-style", message, event)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(item, depth + 1) for item in self._until(yaml.SequenceEndEvent)]
        return self._mapping(depth + 1)

    def _mapping(self, depth: int) -> dict[str, Value]:
        mapping: dict[str, Value] = {}
        for event in self._until(yaml.MappingEndEvent):
            key = self._value(event, depth) or ""
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem="a key is no text")
            if key in mapping:  # the last one wins, as in every YAML reader
                self._findings.append(_duplicate(key, self._line(event)))
            if depth == 1:
                self._lines[key] = self._line(event)
            mapping[key] = self._value(next(self._events), depth)
        return mapping

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        return takewhile(lambda event: not isinstance(event, end), self._events)

    def _line(self, event: yaml.Event) -> int:
        return self._first_line + (event.start_mark.line if event.start_mark is not None else 0)

    def _report(self, code: str, message: str, event: yaml.Event) -> None:
        self._findings.append(Finding(code, message, self._line(event)))

    def _refuse(self, code: str, what: str, event: yaml.Event) -> None:
        if self._unsafe is None:
            message = f"The frontmatter has {what}, which skills may not use."
            self._unsafe = Finding(code, message, self._line(event))


class _Chunk(NamedTuple):
    """A key and the lines up to the next key of the same level."""

    key: str
    first: str
    """The text after the colon, on the line of the key."""
    line: int
    """0-based line in the text."""
    text: str


def _repair(text: str, first_line: int, cause: str, depth: int = 0) -> Frontmatter:
    """Read every key of an invalid text on its own, and report each that had to be repaired.

    Raises:
        FrontmatterError: no line of it is a key, or a key that is valid is refused.
    """
    chunks = _chunks_of(text) or _chunks_of(dedent(_without_tabs(text)))  # every line may be indented
    if not chunks:
        raise FrontmatterError(Finding("yaml-invalid", f"The YAML is invalid: {cause}.", first_line))
    before = text.split("\n")[: chunks[0].line]
    findings = [
        Finding("yaml-line-dropped", "The line belongs to no key.", first_line + number)
        for number, line in enumerate(before)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    fields: dict[str, Value] = {}
    lines: dict[str, int] = {}
    for chunk in chunks:
        lines[chunk.key] = first_line + chunk.line
        if chunk.key in fields:
            findings.append(_duplicate(chunk.key, lines[chunk.key]))
        fields[chunk.key] = _repaired_value(chunk, lines[chunk.key], cause, depth, findings)
    if not any(finding.code in _REPAIRS for finding in findings):  # each key is valid, all together are not
        message = f"The YAML is invalid ({cause}); each key was read on its own."
        findings.append(Finding("yaml-repaired", message, first_line))
    return Frontmatter(fields, lines, tuple(findings))


def _chunks_of(text: str) -> list[_Chunk]:
    """Cut a text at the lines that start with `key:`."""
    lines = text.split("\n")
    keys = [(number, match) for number, line in enumerate(lines) if (match := _KEY.match(line))]
    ends = [*(number for number, _ in keys[1:]), len(lines)][: len(keys)]
    return [
        _Chunk(
            key=match["key"].strip("\"'"),
            first=match["rest"],
            line=number,
            text="\n".join(lines[number:end]),
        )
        for (number, match), end in zip(keys, ends, strict=True)
    ]


def _repaired_value(chunk: _Chunk, line: int, cause: str, depth: int, findings: list[Finding]) -> Value:
    text = _without_tabs(chunk.text)
    try:
        reading = read_yaml(text, line, depth)
    except yaml.YAMLError as error:
        cause = _cause_of(error)
    else:
        if list(reading.fields) == [chunk.key]:
            findings += reading.findings
            if text != chunk.text:
                findings.append(_repaired(chunk.key, "tabs where YAML wants blanks", line))
            return reading.fields[chunk.key]
    if not chunk.first.strip() and depth < _MAX_NESTED_REPAIRS:
        nested = _nested(text.split("\n")[1:], line + 1, cause, depth, findings)
        if nested is not None:
            return nested
    findings.append(_repaired(chunk.key, cause, line))
    return _as_written(chunk)


def _nested(lines: list[str], first_line: int, cause: str, depth: int, findings: list[Finding]) -> Value:
    """Read the lines below a key as a mapping or a list of texts; None if they do not look like one."""
    text = dedent("\n".join(lines))
    items = [line for line in text.split("\n") if line.strip()]
    if items and _KEY.match(items[0]):
        inner = _repair(text, first_line, cause, depth + 1)
        findings += inner.findings
        return dict(inner.fields)
    if items and all(item.startswith(_LIST_MARK) for item in items):
        findings.append(Finding("yaml-repaired", f"A list is not valid YAML ({cause}).", first_line))
        return [_unquoted(item.removeprefix(_LIST_MARK).strip()) for item in items]
    return None


def _as_written(chunk: _Chunk) -> str:
    """Return the value of a key as written, wrapped lines joined and quotes around the whole taken off."""
    first = chunk.first.strip()
    lines = [
        "" if first in _BLOCK_HEADERS else first,
        *(line.strip() for line in chunk.text.split("\n")[1:] if not line.lstrip().startswith("#")),
    ]
    return _unquoted(" ".join(line for line in lines if line))


def _unquoted(text: str) -> str:
    quote = text[:1]
    if quote not in {'"', "'"} or _CLOSED_WITHIN.match(text):
        return text
    if len(text) > 1 and text.endswith(quote):
        return _unescaped(text[1:-1], quote)
    return _unescaped(text[1:], quote) if text.count(quote) == 1 else text


def _unescaped(text: str, quote: str) -> str:
    return text.replace("''", "'") if quote == "'" else text.replace('\\"', '"').replace("\\\\", "\\")


def _without_tabs(text: str) -> str:
    """Return a text with blanks for the tabs that its lines begin with."""
    return _LEADING_TABS.sub(lambda tabs: tabs[1] + "  " * len(tabs[2]), text)


def _repaired(key: str, cause: str, line: int) -> Finding:
    message = f"`{key}` is not valid YAML ({cause}); it was read as the text that is written."
    return Finding("yaml-repaired", message, line)


def _duplicate(key: str, line: int) -> Finding:
    message = f"`{key}` stands here more than once; the last one counts."
    return Finding("yaml-duplicate-key", message, line)


def _cause_of(error: yaml.YAMLError) -> str:
    """Say in a few words what YAML did not like."""
    return str(getattr(error, "problem", None) or "unreadable")
