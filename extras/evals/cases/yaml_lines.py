"""Read YAML as plain values with the line of each, in bounded time: what strangers wrote is never composed.

As in frontmatter (format/yaml_text.py), anchors, aliases, tags and directives are refused before anything is
built of them: a merge-key bomb of 547 bytes keeps PyYAML's composer busy for 56 seconds.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

MAX_DEPTH: Final = 40
MAX_VALUES: Final = 1_000_000

_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
_DECIMAL: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the top to a value."""


class YamlFault(ValueError):  # noqa: N818 - an error of the reader becomes an EvalFileError, with its file
    """What is wrong with a YAML text, and in which line, from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class Plain(str):
    """A scalar without quotes: text, number or truth, as what reads it needs it."""

    __slots__ = ()


class YamlDocument(NamedTuple):
    """A value of dicts, lists, texts (`Plain` where they had no quotes) and None."""

    value: Any
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """Return the line of a value, or of the nearest one around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml_lines(text: str) -> YamlDocument:
    """Read the one document of a text. Raises YamlFault."""
    reader = _Reader(text)
    try:
        value = reader.document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or "it cannot be read")
        raise YamlFault(f"it is no valid YAML ({problem})", mark.line + 1 if mark else 1) from error
    except ValueError as error:
        if isinstance(error, YamlFault):
            raise
        raise YamlFault("it is no valid YAML (a character that no text has)", 1) from error
    return YamlDocument(value, reader.lines)


def resolved(value: Any) -> Any:
    """Return a value as YAML 1.2 means it: scalars without quotes become numbers, truth or null."""
    if isinstance(value, dict):
        return {key: resolved(each) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each) for each in value]
    return _resolved_text(value) if isinstance(value, Plain) else value


def _resolved_text(text: Plain) -> Any:
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return str(text)


class _Reader:
    def __init__(self, text: str) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._values = 0
        self.lines: dict[Path, int] = {}

    def document(self) -> Any:
        value = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise YamlFault("it holds more than one document", _line(event))
                if event.version or event.tags:
                    raise YamlFault("it has a directive, which is not read", _line(event))
            elif isinstance(event, yaml.NodeEvent):
                value = self._value(event, ())
        return value

    def _value(self, event: yaml.Event, path: Path) -> Any:
        self.lines.setdefault(path, _line(event))
        self._check(event, path)
        if isinstance(event, yaml.ScalarEvent):
            if event.style:
                return str(event.value)
            return None if event.value in _NULL else Plain(event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            return [
                self._value(item, (*path, index))
                for index, item in enumerate(self._until(yaml.SequenceEndEvent))
            ]
        return self._mapping(path)

    def _check(self, event: yaml.Event, path: Path) -> None:
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            raise YamlFault("it has an alias, which is not read; write the value out", _line(event))
        if event.anchor is not None:
            raise YamlFault("it has an anchor, which is not read; write the value out", _line(event))
        if event.tag is not None and event.tag != "!":
            raise YamlFault("it has a tag, which is not read; leave it out", _line(event))
        self._values += 1
        if self._values > MAX_VALUES:
            raise YamlFault(f"it has more than {MAX_VALUES:,} values", _line(event))
        if len(path) > MAX_DEPTH:
            raise YamlFault(f"it nests deeper than {MAX_DEPTH} levels", _line(event))

    def _mapping(self, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in self._until(yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._check(event, path)
                raise YamlFault("a key is no text", _line(event))
            self._check(event, path)
            key = str(event.value)
            if key in mapping:
                raise YamlFault(f"`{key[:80]}` stands here twice", _line(event))
            self.lines[(*path, key)] = _line(event)
            mapping[key] = self._value(next(self._events), (*path, key))
        return mapping

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        return takewhile(lambda event: not isinstance(event, end), self._events)


def _line(event: yaml.Event) -> int:
    return 1 + (event.start_mark.line if event.start_mark is not None else 0)
