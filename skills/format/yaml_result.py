"""What reading YAML gives, for the two that read it: plain_yaml.py and yaml_text.py."""

from typing import Final, NamedTuple, TypeAlias

from skills_agent.skills.format.rules import Finding

Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"

NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""Unquoted scalars that mean nothing."""


class YamlText(NamedTuple):
    """A document read, the line of each key of its top mapping, and what was odd."""

    value: Value
    lines: dict[str, int]
    findings: list[Finding]
