"""Read the value of a frontmatter field as what the field is: a line, names, tools, a flag, texts by key.

Any form that YAML can give a value is accepted. What is not the usual form is reported.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from skills_agent.skills.format.parsed import Value
from skills_agent.skills.format.requirements import is_specifier, requirement_of, split_requirements
from skills_agent.skills.format.rules import Finding
from skills_agent.skills.policy.patterns import GRAMMAR, EntryNotUnderstoodError, split_entries
from skills_agent.skills.text import clean_text, one_line, without_joiners

NAME_LIMIT: Final = 128
"""Characters of a name that are kept; the specification allows 64."""
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_SEPARATORS: Final = re.compile(r"[/\\@]+")
"""`x@bundled` asks for the skill `x` of a source: no skill may be named so."""
_USUAL_MODEL: Final = frozenset({"", "inherit", "default"})
_MODEL: Final = re.compile(r"\w[\w.:/@+\[\]-]{0,127}", re.ASCII)
_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})
_NESTED: Final = (list, dict)
_TOOL_PATTERN: Final = re.compile(r"\([^)]*\)")


class FieldValue(msgspec.Struct):
    """The value of one field; what reads it returns None where it says nothing: the default is meant."""

    field: str
    value: Value
    line_number: int | None
    findings: list[Finding]
    """What reading the value finds is added to it."""
    without_effect: list[str] = []
    """What of the value does nothing here."""

    def report(self, code: str, message: str) -> None:
        """Add a finding about this value."""
        self.findings.append(Finding(code, message, self.line_number))

    def line(self) -> str | None:
        """Read one line of text."""
        return one_line(self._text(self.value)) or None

    def model(self) -> str | None:
        """Read the name of a model, or a word in one; `inherit` says nothing."""
        name = one_line(self._text(self.value), NAME_LIMIT)
        if name and not _MODEL.fullmatch(name):
            self.report("model-form", f"`{name}` is no name of a model.")
        return None if name.lower() in _USUAL_MODEL else name

    def effort(self) -> str | None:
        """Read one of the five efforts."""
        word = one_line(self._text(self.value), NAME_LIMIT).lower()
        if word and word not in _EFFORTS:
            self.report("effort-unknown", f"`{word}` is no effort that is known here.")
        return word if word in _EFFORTS else None

    def skill_name(self) -> str | None:
        """Read a name that is safe wherever a name is used."""
        if not self._is_text():
            return None
        name = one_line(self._text(self.value))
        if joined := len(name) - len(without_joiners(name)):
            self.report(
                "invisible-characters", f"Invisible characters were removed from the name ({joined})."
            )
            name = without_joiners(name)
        safe = safe_name(name)
        if safe != name:
            self.report("name-unsafe", f"The name was read as `{safe}`.")
        return safe or None

    def description(self) -> str | None:
        """Read text of any number of lines."""
        self._is_text()
        return self._text(self.value).strip() or None

    def compatibility(self) -> str | None:
        """Read one line that says what a skill needs."""
        self._is_text()
        line = self.line()
        if line is None:
            self.report("compatibility-empty", "Compatibility is empty.")
        return line

    def argument_hint(self) -> str | None:
        """Read one line, as it is written: to YAML the hint `[file]` is a list."""
        text = self.line()
        if isinstance(self.value, list):
            return f"[{text or ''}]"
        return f"{{{text or ''}}}" if isinstance(self.value, dict) else text

    def texts_by_key(self) -> Mapping[str, str] | None:
        """Read a mapping of texts; nested values become JSON."""
        if self.value is None:
            return None
        if not isinstance(self.value, dict):
            self.report("metadata-not-mapping", "The metadata is no mapping and was left out.")
            return None
        texts = {}
        for key, value in self.value.items():
            nested = isinstance(value, _NESTED)
            text = json.dumps(value, ensure_ascii=False) if nested else str(value or "")
            texts[self._clean(key)] = self._clean(text)
        if any(isinstance(value, _NESTED) for value in self.value.values()):
            self.report("metadata-nested", "Nested metadata is kept as JSON text.")
        return MappingProxyType(texts)

    def tools(self) -> tuple[str, ...]:
        """Read names of tools with their patterns, separated by blanks or commas or in a list."""
        items = self.value if isinstance(self.value, list) else [self.value]
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) < len([item for item in items if item is not None]):
            self.report("allowed-tools-not-text", f"`{self.field}` has entries that are no names.")
        text = self._clean(", ".join(texts))
        if isinstance(self.value, list) or _has_commas(text):
            self.report("allowed-tools-form", f"`{self.field}` is not names with blanks between.")
        names = split_entries(text)
        for name in names:
            try:
                GRAMMAR.parse(name)
            except EntryNotUnderstoodError as fault:
                self.report("tools-not-understood", f"{fault} It grants nothing.")
        return names

    def names(self) -> tuple[str, ...]:
        """Read names, separated by blanks or commas or in a list."""
        return self._names(self.value)

    def included_tools(self) -> tuple[str, ...]:
        """Read names of tools that a program brings; on the command line there are none of them."""
        names = self.names()
        if names:
            shown = one_line(", ".join(names), 2 * NAME_LIMIT)
            self.report("tools-of-host", f"It asks for tools that a program registers: `{shown}`.")
        return names

    def required_skills(self) -> tuple[str, ...]:
        """Read names of skills, each with the versions that will do: `chart-kit>=1.2`.

        Some clients also name programs and variables, in a mapping.
        """
        value = self.value
        if isinstance(value, dict):
            if "skills" not in value:
                self.report("requires-not-skills", f"`{self.field}` is a mapping without `skills`.")
            value = value.get("skills")
        written = split_requirements(self._clean(value)) if isinstance(value, str) else self._names(value)
        return tuple(map(self._requirement, written))

    def _requirement(self, written: str) -> str:
        name, specifier = requirement_of(written)
        if specifier and not is_specifier(specifier):
            message = f"`{one_line(written, NAME_LIMIT)}` names no versions by PEP 440: any version will do."
            self.report("requires-version-form", message)
            return name
        return f"{name}{specifier}"

    def flag(self) -> bool | None:
        """Read true or false."""
        if self.value is None:
            return None
        text = self.value.strip().lower() if isinstance(self.value, str) else ""
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        self.report("field-not-boolean", f"`{self.field}` is neither true nor false.")
        return None

    def run_mode(self) -> bool | None:
        """Read whether the skill runs by itself; two fields say that, in other words."""
        words = {"context": "fork", "run-mode": "subagent"}
        text = (self.line() or "").lower()
        if text in words.values():
            return True
        if text not in {"", "inline", "main"}:
            self.report("run-mode-unknown", f"`{self.field}` says only `{words[self.field]}` here.")
        return None

    def negated_flag(self) -> bool | None:
        """Read true or false, and return the opposite."""
        flag = self.flag()
        return None if flag is None else not flag

    def _is_text(self) -> bool:
        is_nested = isinstance(self.value, _NESTED)
        if is_nested:
            self.report(f"{self.field}-not-text", f"The {self.field} is a list or a mapping.")
        return not is_nested

    def _names(self, value: Value) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(self._clean(value).replace(",", " ").split())
        items = [item.get("name") if isinstance(item, dict) else item for item in value]
        texts = [self._clean(item) for item in items if isinstance(item, str)]
        return tuple(name for text in texts if (name := one_line(text)))

    def _text(self, value: Value) -> str:
        if isinstance(value, str):  # nearly always
            return self._clean(value)
        if isinstance(value, list):
            return ", ".join(map(self._text, value))
        if isinstance(value, dict):
            pairs = ((self._clean(key), self._text(inner)) for key, inner in value.items())
            return ", ".join(f"{key}: {inner}" if inner else key for key, inner in pairs)
        return self._clean(value or "")

    def _clean(self, text: str) -> str:
        """Clean a text once more after YAML: an escape in double quotes can spell any character."""
        if text.isascii() and text.isprintable():
            return text
        plain, removed = clean_text(text)
        if removed:
            message = f"Invisible characters were removed from `{self.field}` ({removed})."
            self.report("invisible-characters", message)
        return plain


def safe_name(name: str) -> str:
    """Return a name that is one bounded line and can neither lead out of a folder nor look as if it did."""
    return _SEPARATORS.sub("-", one_line(name, NAME_LIMIT)).lstrip(".- ").rstrip()


def name_from_folder(folder: str) -> str:
    """Return the name of a skill that has none but its folder's."""
    return safe_name(without_joiners(clean_text(folder).text)) or "unnamed"


def _has_commas(text: str) -> bool:
    return "," in text and "," in _TOOL_PATTERN.sub("", text)
