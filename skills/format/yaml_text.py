"""Read YAML as nothing but texts, lists and mappings of texts, in bounded time, and repair what is invalid.

YAML is read event by event and never composed: a merge-key bomb of 547 bytes keeps PyYAML's composer and
constructor busy for 56 seconds. In invalid YAML (0.5 % of 4,419 real files) each key is read by itself, and
as written where it stays invalid: a fault in one must not cost the others.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from textwrap import dedent
from typing import Final

import yaml

from skills_agent.skills.format.fields import find_field
from skills_agent.skills.format.parsed import NULL, Frontmatter, Value
from skills_agent.skills.format.rules import Finding, FrontmatterError

MAX_DEPTH: Final = 12
_MAX_NESTED_REPAIRS: Final = 3
_LIST_MARK: Final = "- "
_BLOCK_HEADERS: Final = frozenset({"|", ">", "|-", ">-", "|+", ">+"})
_REPAIRS: Final = frozenset({"yaml-repaired", "yaml-line-dropped"})

# The C loader where PyYAML was built with it; `Base` because it resolves no types.
_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_KEY: Final = r"""(?P<key>[A-Za-z_][\w.-]*|"[^"\n]+"|'[^'\n]+')[ \t]*:(?=[ \t]|$)"""
_NO_KEY: Final = _KEY.replace("?P<key>", "?:")
_CHUNK: Final = re.compile(rf"(?m)^{_KEY}[ \t]*(?P<first>.*)(?P<below>(?:\n(?!{_NO_KEY}).*)*)")
"""A key, the text after the colon, and the lines up to the next key of the same level."""
_LEADING_TABS: Final = re.compile(r"(?m)^([ ]*)(\t+)")
_CLOSED_WITHIN: Final = re.compile(r"""(["'])(?:(?!\1).)*[^\s\\]\1[\s,;:.](?=.*\1)""", re.DOTALL)
"""A text of which the first words are quoted and others follow: the quotes belong to the text."""


def read_or_repair(text: str, first_line: int) -> Frontmatter:
    """Read a text as `read_yaml` does; where it is no valid YAML, each key on its own."""
    try:
        return read_yaml(text, first_line)
    except yaml.YAMLError as error:
        return _repair(text, first_line, _cause_of(error))


def read_yaml(text: str, first_line: int, depth: int = 0) -> Frontmatter:
    """Read the first document of a text that begins at `first_line` of its file, `depth` levels down.

    Raises yaml.YAMLError for invalid YAML and keys that are no text, and FrontmatterError for what is no
    mapping, unsafe or too deep. Only valid YAML is unsafe: `*Use this* when` is a text that needs quotes.
    """
    return _YamlReader(text, first_line).document(depth)


class _YamlReader:
    def __init__(self, text: str, first_line: int) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._first_line = first_line
        self._lines: dict[str, int] = {}
        self._findings: list[Finding] = []
        self._unsafe: Finding | None = None
        self._top = ""
        """The key of the first level that is read now."""

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
        if event.flow_style:
            self._report_brackets(event)
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
                self._top = key
            mapping[key] = self._value(next(self._events), depth)
        return mapping

    def _report_brackets(self, event: yaml.Event) -> None:
        """Report brackets once, and once in fields that the specification does not have."""
        field = find_field(self._top)
        code = "yaml-flow-style" if field is None or field.in_spec else "yaml-flow-extension"
        if all(finding.code != code for finding in self._findings):
            message = "A list or a mapping stands in brackets, which the reference validator does not read."
            self._report(code, message, event)

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


def _repair(text: str, first_line: int, cause: str, depth: int = 0) -> Frontmatter:
    if _CHUNK.search(text) is None:
        text = dedent(_without_tabs(text))  # every line may be indented
    chunks = list(_CHUNK.finditer(text))
    if not chunks:
        raise FrontmatterError(Finding("yaml-invalid", f"The YAML is invalid: {cause}.", first_line))
    findings = [
        Finding("yaml-line-dropped", "The line belongs to no key.", number)
        for number, line in enumerate(text[: chunks[0].start()].split("\n"), first_line)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    fields: dict[str, Value] = {}
    lines: dict[str, int] = {}
    for chunk in chunks:
        key = chunk["key"].strip("\"'")
        lines[key] = first_line + text.count("\n", 0, chunk.start())
        if key in fields:
            findings.append(_duplicate(key, lines[key]))
        fields[key] = _repaired_value(key, chunk, lines[key], depth, findings)
    if not any(finding.code in _REPAIRS for finding in findings):  # each key is valid, all together are not
        message = f"The YAML is invalid ({cause}); each key was read on its own."
        findings.append(Finding("yaml-repaired", message, first_line))
    return Frontmatter(fields, lines, tuple(findings))


def _repaired_value(key: str, chunk: re.Match[str], line: int, depth: int, findings: list[Finding]) -> Value:
    text = _without_tabs(chunk[0])
    cause = "it is several keys"
    try:
        reading = read_yaml(text, line, depth)
    except yaml.YAMLError as error:
        cause = _cause_of(error)
    else:
        if list(reading.fields) == [key]:
            findings += reading.findings
            if text != chunk[0]:
                findings.append(_repaired(key, "tabs where YAML wants blanks", line))
            return reading.fields[key]
    below = dedent(_without_tabs(chunk["below"][1:]))
    items = [item for item in below.split("\n") if item.strip()]
    if items and not chunk["first"] and depth < _MAX_NESTED_REPAIRS:
        if _CHUNK.match(items[0]):
            inner = _repair(below, line + 1, cause, depth + 1)
            findings += inner.findings
            return dict(inner.fields)
        if all(item.startswith(_LIST_MARK) for item in items):
            findings.append(Finding("yaml-repaired", f"A list is not valid YAML ({cause}).", line + 1))
            return [_unquoted(item.removeprefix(_LIST_MARK).strip()) for item in items]
    findings.append(_repaired(key, cause, line))
    return _as_written(chunk)


def _as_written(chunk: re.Match[str]) -> str:
    """Return the value of a key as written, wrapped lines joined and quotes around the whole taken off."""
    below = [line for line in chunk["below"].split("\n") if not line.lstrip().startswith("#")]
    first = "" if chunk["first"].strip() in _BLOCK_HEADERS else chunk["first"]
    return _unquoted(" ".join(line for line in map(str.strip, [first, *below]) if line))


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
    return str(getattr(error, "problem", None) or "unreadable")
