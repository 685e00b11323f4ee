"""Turn the fields of a frontmatter into what the domain knows of a skill.

Which fields there are, how they are spelled and what each does is said in field_names.py.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from skills_agent.skills.field_names import EFFECTS, SPEC_FIELDS, is_usual, usual_name
from skills_agent.skills.frontmatter import Frontmatter
from skills_agent.skills.policy.patterns import faults
from skills_agent.skills.rules import Finding
from skills_agent.skills.text import clean_text, one_line
from skills_agent.skills.tool_list import has_commas, split_tools
from skills_agent.skills.yaml_text import Value

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_SEPARATOR = re.compile(r"[/\\]+")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
MAX_NAME: Final = 128
"""Characters of a name that are kept; the specification allows 64."""


class Fields(NamedTuple):
    """The fields of one skill, each under its usual name, as clean text; and what was odd."""

    name: str | None
    description: str
    license: str | None
    compatibility: str | None
    metadata: Mapping[str, str]
    allowed_tools: tuple[str, ...] | None
    disallowed_tools: tuple[str, ...]
    model: str | None
    version: str | None
    author: str | None
    when_to_use: str | None
    argument_hint: str | None
    arguments: tuple[str, ...]
    requires: tuple[str, ...]
    model_invocable: bool
    user_invocable: bool
    unknown: tuple[str, ...]
    lengths: Mapping[str, int]
    """Characters of description and compatibility as YAML gives them, which is what the limits are for."""
    findings: tuple[Finding, ...]


def read_fields(frontmatter: Frontmatter) -> Fields:
    """Map the keys and values of a frontmatter, whatever their form, to fields."""
    return _Mapping(frontmatter).fields()


def safe_name(name: str) -> str:
    """Return a name that is one bounded line and can neither lead out of a folder nor look as if it did."""
    plain = one_line(name, MAX_NAME)
    if "/" in plain or "\\" in plain:
        plain = _SEPARATOR.sub("-", plain)
    return plain.lstrip(".- ").rstrip()


class _Mapping:
    """One frontmatter on its way to fields."""

    def __init__(self, frontmatter: Frontmatter) -> None:
        self._lines = frontmatter.lines
        self._findings: list[Finding] = []
        self._values: dict[str, Value] = {}
        self._written: dict[str, str] = {}
        self._unknown: list[str] = []
        for key, value in frontmatter.fields.items():
            self._take(key, value)

    def fields(self) -> Fields:
        metadata = self._metadata()
        return Fields(
            name=self._name(),
            description=self._description(),
            license=self._line_of_text("license"),
            compatibility=self._compatibility(),
            metadata=metadata,
            allowed_tools=self._tools("allowed-tools"),
            disallowed_tools=self._tools("disallowed-tools") or (),
            model=self._line_of_text("model"),
            version=self._line_of_text("version") or metadata.get("version"),
            author=self._line_of_text("author") or metadata.get("author"),
            when_to_use=self._line_of_text("when-to-use"),
            argument_hint=self._argument_hint(),
            arguments=self._names(self._values.get("arguments"), "arguments"),
            requires=self._requires(),
            model_invocable=not self._flag("disable-model-invocation", default=False),
            user_invocable=self._flag("user-invocable", default=True),
            unknown=tuple(self._unknown),
            lengths=self._lengths(),
            findings=tuple(self._findings),
        )

    def _take(self, key: str, value: Value) -> None:
        usual = usual_name(key)
        if usual not in EFFECTS:
            self._unknown.append(one_line(key, MAX_NAME))
            self._note("field-unknown", f"`{one_line(key, MAX_NAME)}` is no field that is known here.", key)
            return
        if not is_usual(key):
            self._note("field-spelling", f"`{key}` was read as `{usual}`.", key)
        elif usual not in SPEC_FIELDS:
            self._note(
                "field-not-in-spec", f"`{key}` is a field of some clients, not of the specification.", key
            )
        if EFFECTS[usual] == "none":
            self._note("field-not-acted-on", f"`{key}` is read and has no effect here.", key)
        if usual in self._values:
            self._note("field-repeated", f"`{key}` repeats `{self._written[usual]}`.", key)
            if not is_usual(key):
                return
        self._values[usual] = value
        self._written[usual] = key

    def _note(self, code: str, message: str, key: str) -> None:
        """Report something about a key as it is written."""
        self._findings.append(Finding(code, message, self._lines.get(key)))

    def _report(self, code: str, message: str, field: str) -> None:
        """Report something about the value of a field."""
        self._note(code, message, self._written.get(field, field))

    def _name(self) -> str | None:
        value = self._values.get("name")
        if isinstance(value, list | dict):
            message = "The name is a list or a mapping; the name of the folder is used."
            self._report("name-not-text", message, "name")
            return None
        name = one_line(self._clean(value or "", "name"))
        safe = safe_name(name)
        if safe != name:
            self._report("name-unsafe", f"The name was read as `{safe}`.", "name")
        return safe or None

    def _description(self) -> str:
        value = self._values.get("description")
        if isinstance(value, list | dict):
            self._report("description-not-text", "The description is a list or a mapping.", "description")
        return self._text(value, "description").strip()

    def _compatibility(self) -> str | None:
        if isinstance(self._values.get("compatibility"), list | dict):
            message = "The compatibility is a list or a mapping."
            self._report("compatibility-not-text", message, "compatibility")
        return self._line_of_text("compatibility")

    def _lengths(self) -> Mapping[str, int]:
        return {
            field: len(value)
            for field in ("description", "compatibility")
            if isinstance(value := self._values.get(field), str)
        }

    def _line_of_text(self, field: str) -> str | None:
        value = self._values.get(field)
        return (one_line(self._text(value, field)) or None) if value is not None else None

    def _argument_hint(self) -> str | None:
        value = self._values.get("argument-hint")
        if isinstance(value, list | dict):  # `[file]` is YAML's list and everybody's hint
            text = self._text(value, "argument-hint")
            return f"[{text}]" if isinstance(value, list) else f"{{{text}}}"
        return self._line_of_text("argument-hint")

    def _metadata(self) -> Mapping[str, str]:
        value = self._values.get("metadata")
        if value is None:
            return _NOTHING
        if not isinstance(value, dict):
            self._report("metadata-not-mapping", "The metadata is no mapping and was left out.", "metadata")
            return _NOTHING
        texts = {}
        nested = False
        for key, inner in value.items():
            nested = nested or isinstance(inner, list | dict)
            text = json.dumps(inner, ensure_ascii=False) if isinstance(inner, list | dict) else inner or ""
            texts[self._clean(key, "metadata")] = self._clean(text, "metadata")
        if nested:
            self._report("metadata-nested", "Nested metadata is kept as JSON text.", "metadata")
        return MappingProxyType(texts)

    def _tools(self, field: str) -> tuple[str, ...] | None:
        if field not in self._values:
            return None
        value = self._values[field]
        items = value if isinstance(value, list) else [value]
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) < len([item for item in items if item is not None]):
            self._report("allowed-tools-not-text", f"`{field}` has entries that are no names.", field)
        text = self._clean(", ".join(texts), field)
        if isinstance(value, list) or has_commas(text):
            self._report("allowed-tools-form", f"`{field}` is not names with blanks between.", field)
        names = split_tools(text)
        for fault in faults(names):
            self._report("tools-not-understood", f"{fault} It grants nothing.", field)
        return names

    def _names(self, value: Value, field: str) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(self._clean(value, field).replace(",", " ").split())
        named = [item.get("name") if isinstance(item, dict) else item for item in value]
        texts = [self._clean(item, field) for item in named if isinstance(item, str)]
        return tuple(name for text in texts if (name := one_line(text)))

    def _requires(self) -> tuple[str, ...]:
        value = self._values.get("requires")
        if isinstance(value, dict):  # some clients name programs, variables and skills in it
            if "skills" not in value:
                self._report("requires-not-skills", "`requires` is a mapping without `skills`.", "requires")
            value = value.get("skills")
        return self._names(value, "requires")

    def _flag(self, field: str, *, default: bool) -> bool:
        value = self._values.get(field)
        if value is None:
            return default
        text = value.strip().lower() if isinstance(value, str) else ""
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        self._report("field-not-boolean", f"`{field}` is neither true nor false.", field)
        return default

    def _text(self, value: Value, field: str) -> str:
        """Return any value as text: lists with commas, mappings as they are written on one line."""
        if isinstance(value, list):
            return ", ".join(self._text(item, field) for item in value)
        if isinstance(value, dict):
            pairs = ((self._clean(key, field), self._text(inner, field)) for key, inner in value.items())
            return ", ".join(f"{key}: {inner}" if inner else key for key, inner in pairs)
        return self._clean(value or "", field)

    def _clean(self, text: str, field: str) -> str:
        """Clean a text once more after YAML: an escape in double quotes can spell any character."""
        plain, removed = clean_text(text)
        if removed:
            message = f"Invisible characters were removed from `{field}` ({removed})."
            self._report("invisible-characters", message, field)
        return plain
