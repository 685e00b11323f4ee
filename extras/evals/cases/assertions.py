"""Assertions of `evals.json`: what can be checked becomes a check, prose becomes a point of a rubric.

Of 601 assertions in public files 573 are sentences and 28 objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skills_agent.evals.cases.case import (
    Expected,
    ExpectedCall,
    ExpectedCalls,
    ExpectedFile,
    ExpectedSkills,
    ExpectedText,
    Rubric,
)
from skills_agent.evals.cases.errors import CheckError
from skills_agent.evals.cases.eval_place import PathFault, laid_path
from skills_agent.evals.cases.patterns import compile_pattern

PROSE: Final = (
    "text", "assertion", "expectation", "statement", "description", "criterion", "criteria", "check",
    "rubric", "judge", "behavior", "name",
)  # fmt: skip
"""Keys of an object that hold its sentence, the best first."""
_TEXT: Final = ("contains", "contains_any", "not_contains", "regex", "not_regex")
_VALUES: Final = ("value", "values", "pattern", "patterns", "text")
_CHANGES: Final = ("flags", "match", "ignore_case", "case_sensitive", "exists", "expected", "min", "max")
"""Keys that change what an assertion says, some of them into its opposite."""


class AssertionFault(ValueError):  # noqa: N818 - a reason, which the reader puts into a sentence with its place
    """Why an assertion is passed over."""


@dataclass
class Expectations:
    """What the assertions of one case come to."""

    texts: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in _TEXT})
    """By the kind of assertion: what the answer is held against."""
    files: list[ExpectedFile] = field(default_factory=list)
    calls: list[ExpectedCall] = field(default_factory=list)
    forbidden: list[ExpectedCall] = field(default_factory=list)
    skills: ExpectedSkills | None = None
    points: list[str] = field(default_factory=list)

    def expected(self) -> Expected:
        """Return all of it as the record of a case."""
        text = ExpectedText(**{kind: _once(texts) for kind, texts in self.texts.items()})  # type: ignore[arg-type]  # kinds are its fields
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
            fields = {snake(str(key)): value for key, value in assertion.items()}
            self._take_object(snake(str(fields.get("type", fields.get("kind", "")))), fields)
        else:
            raise AssertionFault("an assertion is neither a text nor an object")

    def take_texts(self, kind: str, values: list[str]) -> None:
        """Add what the answer is held against, of one of the kinds in `texts`. Raises AssertionFault."""
        if kind == "contains_any" and self.texts[kind]:  # one of these, and one of those: no list says that
            raise AssertionFault("a case has one `contains_any`")
        self.texts[kind] += map(_pattern, values) if kind.endswith("regex") else values

    def _take_object(self, kind: str, assertion: Mapping[str, Any]) -> None:
        prose = next((texts[0].strip() for key in PROSE if (texts := texts_of(assertion.get(key)))), "")
        if kind in _TEXT:
            self.take_texts(kind, _values(kind, assertion))
        elif kind in {"file_exists", "file_not_exists"}:
            path = _path(_values(kind, assertion, "path", "file")[0])
            self.files.append(ExpectedFile(path=path, exists=kind == "file_exists"))
        elif kind == "file_contains":
            text = ExpectedText(contains=tuple(_values(kind, assertion)))
            path = _path(_values(kind, assertion, "path", "file")[0])
            self.files.append(ExpectedFile(path=path, text=text))
        elif kind in {"tool_used", "tool_not_used"}:
            call = ExpectedCall(tool=_values(kind, assertion, "tool", "tool_name")[0])
            (self.calls if kind == "tool_used" else self.forbidden).append(call)
        elif prose:
            self.points.append(prose)
        else:
            raise AssertionFault(f"the assertion `{kind[:40]}` is of a kind that is not known")


def texts_of(value: object) -> list[str]:
    """Return a text, or the texts of a list, without what is none."""
    items = value if isinstance(value, list | tuple) else [value]
    texts = (
        str(each) if isinstance(each, int | float) and not isinstance(each, bool) else each for each in items
    )
    return [each for each in texts if isinstance(each, str) and each.strip()]


def _values(kind: str, assertion: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the values of an assertion that is checked; never empty. Raises AssertionFault."""
    if changed := next((key for key in _CHANGES if key in assertion), ""):
        raise AssertionFault(f"`{changed}` of the assertion `{kind}` is not read")
    values = next((texts for key in keys or _VALUES if (texts := texts_of(assertion.get(key)))), [])
    if not values:
        raise AssertionFault(f"the assertion `{kind}` has no value")
    return values


def _pattern(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except CheckError as error:
        raise AssertionFault(str(error).rstrip(".")) from error
    return pattern


def _path(path: str) -> str:
    try:
        return laid_path(path)
    except PathFault as fault:
        raise AssertionFault(str(fault)) from fault


def snake(name: str) -> str:
    """Return a name as `file_exists`, however it is written: `fileExists`, `file-exists`."""
    letters = "".join(f"_{each}" if each.isupper() else each for each in name) if not name.isupper() else name
    return letters.replace("-", "_").replace(" ", "_").replace("__", "_").strip("_").lower()


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
