"""Assertions of other formats: what can be checked becomes a check, prose becomes a point of a rubric.

Of 601 assertions in public `evals.json` 573 are sentences and 28 objects. The names of kinds here are those
that these objects, promptfoo, agentskills-tools and `claude plugin eval` have.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skills_agent.skills.evals.case import (
    Expected,
    ExpectedCall,
    ExpectedCalls,
    ExpectedFile,
    ExpectedSkills,
    ExpectedText,
    Rubric,
)
from skills_agent.skills.evals.errors import CheckError
from skills_agent.skills.evals.eval_place import PathFault, laid_path
from skills_agent.skills.evals.json_checks import check_schema
from skills_agent.skills.evals.patterns import compile_pattern

PROSE: Final = (
    "text", "assertion", "expectation", "statement", "description", "criterion", "criteria", "check",
    "rubric", "judge", "behavior", "name",
)  # fmt: skip
"""Keys of an object that hold its sentence, the best first."""
_VALUES: Final = (
    "value", "values", "text", "texts", "substring", "substrings", "keyword", "keywords", "expected",
    "pattern", "patterns", "regex", "contains",
)  # fmt: skip
_PATHS: Final = ("path", "file", "filename", "target")
_TOOLS: Final = ("tool", "tool_name", "name", "value")

_CONTAINS: Final = frozenset({"contains", "contains_all", "includes", "output_contains", "text_contains"})
_ANY: Final = frozenset({"contains_any", "includes_any", "any_of"})
_NOT: Final = frozenset(
    {"not_contains", "excludes", "does_not_contain", "output_not_contains", "contains_none"}
)
_REGEX: Final = frozenset({"regex", "matches", "match", "pattern", "regex_match", "regex_present"})
_NOT_REGEX: Final = frozenset({"not_regex", "not_matches", "not_match", "regex_absent"})
_EQUALS: Final = frozenset({"equals", "exact", "exact_match"})
_FILE: Final = frozenset({"file_exists", "file_created", "exists"})
_NO_FILE: Final = frozenset({"file_not_exists", "file_absent", "not_file_exists"})
_FILE_TEXT: Final = frozenset({"file_contains", "file_not_contains", "file_regex", "file_matches"})
_TOOL: Final = frozenset({"tool_used", "tool_called", "tool_call", "uses_tool"})
_NO_TOOL: Final = frozenset({"tool_not_used", "tool_not_called", "not_tool_used"})
_PROSE_KINDS: Final = frozenset(
    {"", "llm", "llm_rubric", "llm_judge", "judge", "rubric", "semantic", "behavior", "behavioral",
     "behaviour", "quality", "qualitative", "manual", "prose", "model_graded", "output", "content", "process"}
)  # fmt: skip
_ALONE: Final = _CONTAINS | _ANY | _NOT | _REGEX | _NOT_REGEX | _EQUALS | {"judge", "icontains"}
"""Kinds that stand as the one key of an object, with the value: `{contains: total}`."""


class AssertionFault(ValueError):  # noqa: N818 - a reason, which the reader puts into a sentence with its place
    """Why an assertion is passed over."""


@dataclass
class Expectations:
    """What the assertions of one case come to."""

    contains: list[str] = field(default_factory=list)
    contains_any: list[str] = field(default_factory=list)
    not_contains: list[str] = field(default_factory=list)
    regex: list[str] = field(default_factory=list)
    not_regex: list[str] = field(default_factory=list)
    equals: str | None = None
    json_schema: dict[str, Any] | None = None
    files: list[ExpectedFile] = field(default_factory=list)
    calls: list[ExpectedCall] = field(default_factory=list)
    forbidden: list[ExpectedCall] = field(default_factory=list)
    skills: ExpectedSkills | None = None
    points: list[str] = field(default_factory=list)

    def expected(self) -> Expected:
        """Return all of it as the record of a case."""
        text = ExpectedText(
            contains=_once(self.contains),
            contains_any=_once(self.contains_any),
            not_contains=_once(self.not_contains),
            regex=_once(self.regex),
            not_regex=_once(self.not_regex),
            equals=self.equals,
            json_schema=self.json_schema,
        )
        calls = ExpectedCalls(calls=tuple(self.calls) or None, forbidden=tuple(self.forbidden))
        return Expected(
            skills=self.skills,
            calls=None if calls == ExpectedCalls() else calls,
            answer=None if text == ExpectedText() else text,
            files=tuple(self.files),
            rubric=Rubric(points=_once(self.points)) if self.points else None,
        )

    def take(self, assertion: object) -> None:
        """Add one assertion, as the file has it. Raises AssertionFault for what is not understood."""
        if isinstance(assertion, str):
            if assertion.strip():
                self.points.append(assertion.strip())
        elif isinstance(assertion, Mapping):
            self._take_object({snake(str(key)): value for key, value in assertion.items()})
        else:
            raise AssertionFault("an assertion is neither a text nor an object")

    def take_patterns(self, patterns: Iterable[str], *, wanted: bool = True) -> None:
        """Add patterns that a part of the answer fits, or none does. Raises AssertionFault."""
        for pattern in patterns:
            (self.regex if wanted else self.not_regex).append(_pattern(pattern))

    def _take_object(self, assertion: Mapping[str, Any]) -> None:
        kind = next((assertion[key] for key in ("type", "kind", "method") if key in assertion), None)
        alone = [key for key in assertion if key in _ALONE]
        if kind is None and len(alone) == 1:
            kind, assertion = alone[0], {**assertion, "value": assertion[alone[0]]}
        name = snake(str(kind or "")).removeprefix("assert_")
        if name in _PROSE_KINDS or (kind is not None and not isinstance(kind, str)):
            self._take_prose(assertion)
        elif not self._take_text(name, assertion) and not self._take_other(name, assertion):
            if not _prose_of(assertion):
                raise AssertionFault(f"the assertion `{name[:40]}` is of a kind that is not known")
            self._take_prose(assertion)

    def _take_text(self, kind: str, assertion: Mapping[str, Any]) -> bool:
        """Add what is held against the answer; return whether the kind is of this sort."""
        values = _values(assertion)
        ignored_case = any(assertion.get(key) is True for key in ("ignore_case", "case_insensitive", "ci"))
        ignored_case = (
            ignored_case or kind.startswith("icontains") or assertion.get("case_sensitive") is False
        )
        kind = kind.removeprefix("i") if kind.startswith("icontains") else kind
        if kind in _CONTAINS | _ANY | _NOT and ignored_case:
            self._take_ignoring_case(kind, values)
        elif kind in _CONTAINS:
            self.contains += _some(values)
        elif kind in _ANY and self.contains_any:  # one of these, and one of those: no one list says that
            self.take_patterns([_either(values)])
        elif kind in _ANY:
            self.contains_any += _some(values)
        elif kind in _NOT:
            self.not_contains += _some(values)
        elif kind in _REGEX | _NOT_REGEX:
            prefix = "(?i)" if ignored_case or "i" in str(assertion.get("flags", "")) else ""
            wanted = kind in _REGEX and assertion.get("match") != "not_contains"
            self.take_patterns([prefix + each for each in _some(values)], wanted=wanted)
        elif kind in _EQUALS:
            self.equals = _some(values)[0]
        elif kind == "json_schema":
            self.json_schema = _schema(assertion)
        else:
            return False
        return True

    def _take_ignoring_case(self, kind: str, values: list[str]) -> None:
        each_alone = [[value] for value in _some(values)]
        patterns = [f"(?i){_either(texts)}" for texts in ([values] if kind in _ANY else each_alone)]
        self.take_patterns(patterns, wanted=kind not in _NOT)

    def _take_other(self, kind: str, assertion: Mapping[str, Any]) -> bool:
        """Add what is expected of files and calls; return whether the kind is of this sort."""
        if kind in _FILE | _NO_FILE:
            wanted = kind in _FILE and assertion.get("exists", assertion.get("expected", True)) is not False
            self.files.append(ExpectedFile(path=_path(assertion), exists=wanted))
        elif kind in _FILE_TEXT:
            self.files.append(ExpectedFile(path=_path(assertion), text=_file_text(kind, assertion)))
        elif kind in _TOOL | _NO_TOOL:
            tool = next((assertion[key] for key in _TOOLS if isinstance(assertion.get(key), str)), "")
            if not tool:
                raise AssertionFault(f"the assertion `{kind}` names no tool")
            never = kind in _NO_TOOL or assertion.get("max") == 0
            (self.forbidden if never else self.calls).append(ExpectedCall(tool=tool))
        else:
            return False
        return True

    def _take_prose(self, assertion: Mapping[str, Any]) -> None:
        prose = _prose_of(assertion) or next(iter(_values(assertion)), "")
        if not prose:
            raise AssertionFault("an assertion says nothing in words that are known")
        self.points.append(prose)


def texts_of(value: object) -> list[str]:
    """Return a text, or the texts of a list, without what is none."""
    items = value if isinstance(value, list | tuple) else [value]
    texts = (
        str(each) if isinstance(each, int | float) and not isinstance(each, bool) else each for each in items
    )
    return [each for each in texts if isinstance(each, str) and each.strip()]


def _values(assertion: Mapping[str, Any]) -> list[str]:
    return next((texts for key in _VALUES if (texts := texts_of(assertion.get(key)))), [])


def _some(values: list[str]) -> list[str]:
    if not values:
        raise AssertionFault("an assertion has no value")
    return values


def _prose_of(assertion: Mapping[str, Any]) -> str:
    return next((texts[0].strip() for key in PROSE if (texts := texts_of(assertion.get(key))[:1])), "")


def _either(texts: list[str]) -> str:
    """Return a pattern that fits one of some texts."""
    import re2  # noqa: PLC0415 - start-up does not need it

    return "|".join(re2.escape(text) for text in _some(texts))


def _pattern(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except CheckError as error:
        raise AssertionFault(str(error).rstrip(".")) from error
    return pattern


def _schema(assertion: Mapping[str, Any]) -> dict[str, Any]:
    schema = next(
        (assertion[key] for key in ("schema", "value") if isinstance(assertion.get(key), dict)), None
    )
    if schema is None:
        raise AssertionFault("the assertion `json_schema` has no schema")
    try:
        check_schema(schema)
    except CheckError as error:
        raise AssertionFault(str(error).rstrip(".")) from error
    return dict(schema)


def _path(assertion: Mapping[str, Any]) -> str:
    path = next((assertion[key] for key in (*_PATHS, "value") if isinstance(assertion.get(key), str)), "")
    try:
        return laid_path(path)
    except PathFault as fault:
        raise AssertionFault(str(fault)) from fault


def _file_text(kind: str, assertion: Mapping[str, Any]) -> ExpectedText:
    values = tuple(_some(_values({key: value for key, value in assertion.items() if key not in _PATHS})))
    if kind == "file_contains":
        return ExpectedText(contains=values)
    if kind == "file_not_contains":
        return ExpectedText(not_contains=values)
    return ExpectedText(regex=tuple(map(_pattern, values)))


def snake(name: str) -> str:
    """Return a name as `file_exists`, however it is written: `fileExists`, `file-exists`."""
    letters = "".join(f"_{each}" if each.isupper() else each for each in name) if not name.isupper() else name
    return letters.replace("-", "_").replace(" ", "_").replace("__", "_").strip("_").lower()


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
