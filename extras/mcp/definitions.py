"""What a server says of its tools, checked: whatever it sends is data of a stranger.

A tool that cannot be offered is a fault in words, and hides none of the others. Providers refuse a whole
request for one schema that they do not take, so a schema is checked, freed of references, and bounded here.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skills_agent.skills.errors import SkillError
from skills_agent.skills.risk import Risk
from skills_agent.skills.text import clean_lines, clean_text, cut
from skills_agent.skills.visible import visible_line

MAX_TOOLS: Final = 128
"""Of one server, as many as OpenAI takes in a request."""
MAX_NAME: Final = 64
"""Characters of a tool's whole name, as OpenAI and Anthropic take it."""
MAX_DESCRIPTION: Final = 2_048
"""Characters; the rest is cut."""
MAX_SCHEMA: Final = 16_000
"""Characters of a tool's schema without its references."""
MAX_ALL: Final = 200_000
"""Characters of all that one server makes a prompt hold."""
MAX_DEPTH: Final = 24
MAX_TEXT: Final = 1_024
"""Characters of a description within a schema."""
MAX_FAULTS: Final = 20
MAX_SHOWN: Final = 80
"""Characters of a stranger's text in a fault."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Anthropic's rule for names of arguments."""
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "pattern", "required"})
"""Where a schema holds values: a text there is not changed, or the server would not know it."""
_NOT_AT_TOP: Final = frozenset({"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "enum", "const"})
"""Providers do not take these for the arguments as a whole; the server itself still checks them."""
_DROPPED: Final = frozenset({"$schema", "$id", "$anchor", "$comment", "$defs", "definitions"})


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that may be offered to a model."""

    name: str
    """For the model: `mcp__server__tool`."""
    tool: str
    """For the server."""
    description: str
    schema: dict[str, Any]
    """JSON Schema of an object, without references."""
    risk: Risk


def check_tools(
    server: str, offers: Iterable[Mapping[str, Any]], *, trust_hints: bool = False
) -> tuple[list[ToolDefinition], list[str]]:
    """Return the tools of a server that can be offered, in its order, and why the others cannot.

    `offers` are its tools as MCP's JSON has them. Each is a tool by MCP's own schema (connection.py), and
    nothing else of it is checked yet. Of two of one name, the first counts.
    """
    tools: dict[str, ToolDefinition] = {}
    faults: list[str] = []
    room = MAX_ALL
    for offer in offers:
        try:
            tool = _check(server, offer, trust_hints=trust_hints)
            size = len(tool.description) + len(json.dumps(tool.schema))
            if tool.name in tools:
                raise SkillError("there is another tool of that name before it")  # noqa: TRY301
            if len(tools) == MAX_TOOLS or size > room:
                raise SkillError("the server has more tools than a prompt can hold")  # noqa: TRY301
        except SkillError as error:
            faults.append(f"{visible_line(cut(offer['name'], MAX_SHOWN))}: {error}")
            continue
        room -= size
        tools[tool.name] = tool
    if len(faults) > MAX_FAULTS:
        faults[MAX_FAULTS:] = [f"{len(faults) - MAX_FAULTS:,} more tools cannot be offered"]
    return list(tools.values()), faults


def tool_name(server: str, tool: str) -> str:
    """Return the name that a model calls a server's tool by: at most 64 letters, digits, `_` and `-`.

    A longer one ends with a part of its digest, so that two that begin alike stay two.
    """
    name = f"mcp__{server}__{_NOT_IN_NAMES.sub('_', tool)}"
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(tool.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def _check(server: str, offer: Mapping[str, Any], *, trust_hints: bool) -> ToolDefinition:
    name = offer["name"]
    if not name or len(name) > MAX_TEXT:
        raise SkillError("its name is empty or too long")
    description = offer.get("description") or offer.get("title") or ""
    return ToolDefinition(
        name=tool_name(server, name),
        tool=name,
        description=f"[MCP server {server}] {_plain(description, MAX_DESCRIPTION)}",
        schema=_check_schema(offer["inputSchema"]),
        risk=_risk(offer.get("annotations") or {}, trust_hints=trust_hints),
    )


def _risk(hints: Mapping[str, Any], *, trust_hints: bool) -> Risk:
    """Return the risk of a tool. A hint that makes it worse counts; one that makes it free if trusted."""
    if hints.get("destructiveHint"):
        return "delete"
    return "read" if hints.get("readOnlyHint") and trust_hints else "network"


def _check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - of the extra `mcp`

    plain = _Inlined(schema).result()
    top = {name: value for name, value in plain.items() if name not in _NOT_AT_TOP}
    top |= {"type": "object", "properties": plain.get("properties", {})}
    try:
        Draft202012Validator.check_schema(top)
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        raise SkillError(f"its schema is not valid at /{visible_line(cut(place, MAX_SHOWN))}") from error
    return top


class _Inlined:
    """A schema with what its references stand for in their places, within bounds.

    References to each other can stand for more text than any memory holds, and one to itself for no end.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._room = MAX_SCHEMA

    def result(self) -> dict[str, Any]:
        schema = self._schema(self._root, 0, ())
        if not isinstance(schema, dict):
            raise SkillError("its schema is no object")
        return schema

    def _schema(self, value: Any, depth: int, through: tuple[str, ...]) -> Any:
        """Return a schema, a list of schemas, or a plain value of one."""
        self._spend(min(len(value), MAX_TEXT) if isinstance(value, str) else 2, depth)
        if isinstance(value, dict):
            if isinstance(reference := value.get("$ref"), str):
                return self._referred(reference, value, depth, through)
            return {
                name: self._keyword(name, each, depth + 1, through)
                for name, each in value.items()
                if name not in _DROPPED
            }
        if isinstance(value, list):
            return [self._schema(each, depth + 1, through) for each in value]
        return _plain(value, MAX_TEXT) if isinstance(value, str) else value

    def _keyword(self, name: str, value: Any, depth: int, through: tuple[str, ...]) -> Any:
        self._spend(len(name), depth)
        if name in _VALUES:
            return self._value(value, depth)
        if name == "properties" and isinstance(value, dict):
            if odd := [key for key in value if not _PROPERTY.fullmatch(key)]:
                raise SkillError(
                    f"the name of an argument is not plain: {visible_line(cut(odd[0], MAX_SHOWN))}"
                )
            self._spend(sum(map(len, value)), depth)
            return {key: self._schema(each, depth + 1, through) for key, each in value.items()}
        return self._schema(value, depth, through)

    def _value(self, value: Any, depth: int) -> Any:
        """Return a value as it is. Raises SkillError where a text of it has to be cleaned."""
        self._spend(len(value) if isinstance(value, str) else 2, depth)
        if isinstance(value, str) and clean_text(value).removed:
            raise SkillError("a value in its schema has characters that cannot be seen")
        if isinstance(value, dict):
            return {self._value(key, depth + 1): self._value(each, depth + 1) for key, each in value.items()}
        return [self._value(each, depth + 1) for each in value] if isinstance(value, list) else value

    def _referred(self, reference: str, beside: dict[str, Any], depth: int, through: tuple[str, ...]) -> Any:
        if reference in through:
            return {}  # A schema within itself: the server checks what is that deep.
        target = self._target(reference)
        rest = {name: value for name, value in beside.items() if name != "$ref"}
        both = {**target, **rest} if isinstance(target, dict) else target
        return self._schema(both, depth + 1, (*through, reference))

    def _target(self, reference: str) -> Any:
        value: Any = self._root
        if reference != "#" and not reference.startswith("#/"):
            raise SkillError("its schema refers to another document")
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(value, dict) or key not in value:
                raise SkillError("its schema refers to what is not there")
            value = value[key]
        return value

    def _spend(self, size: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise SkillError(f"its schema is more than {MAX_DEPTH} levels deep")
        self._room -= size
        if self._room < 0:
            raise SkillError(f"its schema is larger than {MAX_SCHEMA:,} characters")


def _plain(text: str, limit: int) -> str:
    # Cut first: a stranger's text of a megabyte is not looked through.
    return cut(clean_lines(text[: limit * 4]).text, limit).strip()
