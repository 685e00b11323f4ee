"""Turn the fields of a frontmatter into what the domain knows of a skill.

Which fields there are, how they are spelled and what each does is said in field_names.py.
"""

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from skills_agent.skills.format.field_names import EFFECTS, SPEC_FIELDS, is_usual, usual_name
from skills_agent.skills.format.frontmatter import Frontmatter
from skills_agent.skills.format.rules import Finding
from skills_agent.skills.format.tool_list import has_commas, split_tools
from skills_agent.skills.format.yaml_result import Value
from skills_agent.skills.policy.patterns import faults
from skills_agent.skills.text import clean_text, one_line

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_SEPARATOR = re.compile(r"[/\\]+")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_UNREMARKABLE: Final = frozenset(
    field for field in SPEC_FIELDS if EFFECTS[field] not in {"none", "recommended"}
)
"""Nothing has to be said of these, spelled as they should be and for the first time."""
MAX_NAME: Final = 128
"""Characters of a name that are kept; the specification allows 64."""


class Fields(NamedTuple):
    """The fields of one skill as clean text, and what was odd."""

    name: str | None
    description: str
    others: Mapping[str, Any]
    """Fields that are written, by the attribute of SkillMetadata that holds each."""
    unknown: tuple[str, ...]
    lengths: Mapping[str, int]
    """Characters of description and compatibility as YAML gives them, which is what the limits are for."""
    findings: tuple[Finding, ...]

    @property
    def compatibility(self) -> str | None:
        """Return the compatibility, if it says anything."""
        return self.others.get("compatibility")


def read_fields(frontmatter: Frontmatter) -> Fields:
    """Map the keys and values of a frontmatter, whatever their form, to fields."""
    return _Mapping(frontmatter).fields()


def safe_name(name: str) -> str:
    """Return a name that is one bounded line and can neither lead out of a folder nor look as if it did."""
    if len(name) <= MAX_NAME and name.isascii() and name.replace("-", "x").isalnum() and name[0] != "-":
        return name
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
        name = self._name()
        description = self._description()
        others = {
            _OPTIONAL[field].attribute: _OPTIONAL[field].read(self, field)
            for field in self._values
            if field in _OPTIONAL
        }
        for fallback in ("version", "author"):
            if not others.get(fallback) and fallback in others.get("metadata", _NOTHING):
                others[fallback] = others["metadata"][fallback]
        unknown, findings = tuple(self._unknown), tuple(self._findings)
        return Fields(name, description, others, unknown, self._lengths(), findings)

    def _take(self, key: str, value: Value) -> None:
        if key in _UNREMARKABLE and key not in self._values:
            self._values[key] = value
            self._written[key] = key
            return
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

    def compatibility(self, field: str) -> str | None:
        if isinstance(self._values.get(field), list | dict):
            self._report("compatibility-not-text", "The compatibility is a list or a mapping.", field)
        return self.line_of_text(field)

    def _lengths(self) -> Mapping[str, int]:
        values = self._values
        limited = ("description", "compatibility") if "compatibility" in values else ("description",)
        return {field: len(value) for field in limited if isinstance(value := values.get(field), str)}

    def line_of_text(self, field: str) -> str | None:
        value = self._values.get(field)
        return (one_line(self._text(value, field)) or None) if value is not None else None

    def argument_hint(self, field: str) -> str | None:
        value = self._values.get(field)
        if isinstance(value, list | dict):  # `[file]` is YAML's list and everybody's hint
            text = self._text(value, field)
            return f"[{text}]" if isinstance(value, list) else f"{{{text}}}"
        return self.line_of_text(field)

    def metadata(self, field: str) -> Mapping[str, str]:
        value = self._values.get(field)
        if value is None:
            return _NOTHING
        if not isinstance(value, dict):
            self._report("metadata-not-mapping", "The metadata is no mapping and was left out.", field)
            return _NOTHING
        texts = {}
        nested = False
        for key, inner in value.items():
            nested = nested or isinstance(inner, list | dict)
            text = json.dumps(inner, ensure_ascii=False) if isinstance(inner, list | dict) else inner or ""
            texts[self._clean(key, field)] = self._clean(text, field)
        if nested:
            self._report("metadata-nested", "Nested metadata is kept as JSON text.", field)
        return MappingProxyType(texts)

    def tools(self, field: str) -> tuple[str, ...]:
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

    def names(self, field: str) -> tuple[str, ...]:
        return self._names(self._values.get(field), field)

    def _names(self, value: Value, field: str) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(self._clean(value, field).replace(",", " ").split())
        named = [item.get("name") if isinstance(item, dict) else item for item in value]
        texts = [self._clean(item, field) for item in named if isinstance(item, str)]
        return tuple(name for text in texts if (name := one_line(text)))

    def requires(self, field: str) -> tuple[str, ...]:
        value = self._values.get(field)
        if isinstance(value, dict):  # some clients name programs, variables and skills in it
            if "skills" not in value:
                self._report("requires-not-skills", "`requires` is a mapping without `skills`.", field)
            value = value.get("skills")
        return self._names(value, field)

    def model_invocable(self, field: str) -> bool:
        return not self._flag(field, default=False)

    def user_invocable(self, field: str) -> bool:
        return self._flag(field, default=True)

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
        if text.isascii() and text.isprintable():
            return text
        plain, removed = clean_text(text)
        if removed:
            message = f"Invisible characters were removed from `{field}` ({removed})."
            self._report("invisible-characters", message, field)
        return plain


class _Optional(NamedTuple):
    """Where a field goes that most skills do not have, and how its value is read."""

    attribute: str
    read: Callable[[_Mapping, str], Any]


_OPTIONAL: Final = MappingProxyType(
    {
        "license": _Optional("license", _Mapping.line_of_text),
        "compatibility": _Optional("compatibility", _Mapping.compatibility),
        "metadata": _Optional("metadata", _Mapping.metadata),
        "allowed-tools": _Optional("allowed_tools", _Mapping.tools),
        "disallowed-tools": _Optional("disallowed_tools", _Mapping.tools),
        "model": _Optional("model", _Mapping.line_of_text),
        "version": _Optional("version", _Mapping.line_of_text),
        "author": _Optional("author", _Mapping.line_of_text),
        "when-to-use": _Optional("when_to_use", _Mapping.line_of_text),
        "argument-hint": _Optional("argument_hint", _Mapping.argument_hint),
        "arguments": _Optional("arguments", _Mapping.names),
        "requires": _Optional("requires", _Mapping.requires),
        "disable-model-invocation": _Optional("model_invocable", _Mapping.model_invocable),
        "user-invocable": _Optional("user_invocable", _Mapping.user_invocable),
    }
)
