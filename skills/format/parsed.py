"""What a frontmatter says, before anybody asks what its fields mean."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from skills_agent.skills.format.rules import Finding

NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""Unquoted scalars that mean nothing."""

Value: TypeAlias = "str | list[Value] | dict[str, Value] | None"


class Frontmatter(NamedTuple):
    """The fields of a frontmatter, the line of each, and what was odd."""

    fields: Mapping[str, Value]
    lines: Mapping[str, int]
    findings: tuple[Finding, ...] = ()
