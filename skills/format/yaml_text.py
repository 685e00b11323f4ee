"""Read YAML as nothing but texts, lists and mappings of texts, in bounded time.

YAML is read event by event and never composed: a merge-key bomb of 547 bytes keeps PyYAML's composer and
constructor busy for 56 seconds. Anchors, aliases, tags and directives are refused as events; scalars stay
the text that was written, so `yes`, `1.0`, `2024-99-99` and a number of 5,000 digits are texts.
"""

from collections.abc import Iterator
from typing import Final

import yaml

from skills_agent.skills.format.rules import Finding, FrontmatterError
from skills_agent.skills.format.yaml_result import NULL, Value, YamlText

MAX_DEPTH: Final = 12

# The C loader where PyYAML was built with it; `Base` because it resolves no types.
_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_yaml(text: str, first_line: int, depth: int = 0) -> YamlText:
    """Read the first document of a text that begins at `first_line` of its file, `depth` levels down.

    What is unsafe is refused only once the whole document has proved to be valid YAML: `*Use this* when`
    is no alias but a text that wants quotes.

    Raises:
        yaml.YAMLError: the text is no valid YAML, or a key in it is no text.
        FrontmatterError: it has anchors, aliases, tags or directives, or is too deep.
    """
    return _Reading(text, first_line).document(depth)


class _Reading:
    """One pass over the events of one document."""

    def __init__(self, text: str, first_line: int) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._first_line = first_line
        self._lines: dict[str, int] = {}
        self._findings: list[Finding] = []
        self._unsafe: Finding | None = None
        self._has_flow = False

    def document(self, depth: int) -> YamlText:
        value: Value = None
        for event in self._events:
            if isinstance(event, yaml.DocumentEndEvent):
                break
            if isinstance(event, yaml.NodeEvent):
                value = self._value(event, depth)
            elif isinstance(event, yaml.DocumentStartEvent) and (event.version or event.tags):
                self._refuse("yaml-directive", "a directive", event)
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                message = "What follows the line `...` was not read."
                self._findings.append(Finding("yaml-line-dropped", message, self._line(event)))
                break
        if self._unsafe is not None:
            raise FrontmatterError(self._unsafe)
        return YamlText(value, self._lines, self._findings)

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
            self._findings.append(Finding("yaml-flow-style", message, self._line(event)))
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(depth + 1)
        return self._mapping(depth + 1)

    def _list(self, depth: int) -> list[Value]:
        items: list[Value] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._value(event, depth))
        return items

    def _mapping(self, depth: int) -> dict[str, Value]:
        mapping: dict[str, Value] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._value(event, depth) or ""
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem="a key is no text")
            if key in mapping:  # the last one wins, as in every YAML reader
                message = f"`{key}` stands here more than once; the last one counts."
                self._findings.append(Finding("yaml-duplicate-key", message, self._line(event)))
            if depth == 1:
                self._lines[key] = self._line(event)
            mapping[key] = self._value(next(self._events), depth)
        return mapping

    def _line(self, event: yaml.Event) -> int:
        return self._first_line + (event.start_mark.line if event.start_mark is not None else 0)

    def _refuse(self, code: str, what: str, event: yaml.Event) -> None:
        if self._unsafe is None:
            message = f"The frontmatter has {what}, which skills may not use."
            self._unsafe = Finding(code, message, self._line(event))
