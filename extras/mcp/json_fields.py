"""A frontmatter as JSON, every field as it is written: how skills are listed over MCP (SEP-2640).

Two readers have to come to the same value, so only YAML counts that all of them read alike: no aliases, tags
and merges, no key twice, keys that are texts, and values that JSON has.
"""

import math
from typing import Any, Final

import yaml

from skills_agent.skills.format.frontmatter import split
from skills_agent.skills.format.rules import Finding, FrontmatterError
from skills_agent.skills.format.yaml_text import read_yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def json_fields(raw: bytes) -> dict[str, Any]:
    """Return the fields of a SKILL.md as JSON has them. Raises FrontmatterError."""
    text, first_line = _text(raw)
    try:
        read = read_yaml(text, first_line)  # first, in bounded time: it refuses what composing may never end
        if any(finding.code == "yaml-duplicate-key" for finding in read.findings):
            raise _refusal("A key is there twice.", first_line)
        value = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _refusal("The frontmatter is no plain YAML.", first_line) from error
    if not isinstance(value, dict) or not _is_json(value):
        raise _refusal("The frontmatter has values that JSON does not have.", first_line)
    return value


def _text(raw: bytes) -> tuple[str, int]:
    parts = split(raw)
    try:
        return parts.frontmatter.decode("utf-8"), parts.first_line
    except UnicodeDecodeError as error:
        raise _refusal("The frontmatter is not UTF-8 text.", parts.first_line) from error


def _is_json(value: object) -> bool:
    match value:
        case dict():
            return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
        case list():
            return all(map(_is_json, value))
        case float():
            return math.isfinite(value)
        case _:
            return value is None or isinstance(value, str | bool | int)


def _refusal(message: str, line: int) -> FrontmatterError:
    return FrontmatterError(Finding("yaml-invalid", message, line))
