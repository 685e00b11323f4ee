"""What a text holds: the last answer, or a file.

Line ends are those of POSIX, and white space at the end of the text is no part of it. Patterns, which
strangers wrote, are those of RE2: Python's own matcher may need hours for `(a+)+$`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from skills_agent.evals.cases.case import ExpectedText
from skills_agent.evals.cases.errors import EvalError
from skills_agent.evals.cases.excerpts import around, listed, quote, result
from skills_agent.evals.cases.result import CheckKind, CheckResult

MAX_JSON: Final = 1_000_000
"""Characters of JSON that are held against a schema."""
_MAX_MEMORY: Final = 64 << 20
"""Bytes that RE2 may use for one pattern."""
_VERBS: Final = {
    "contains": "contains",
    "not_contains": "does not contain",
    "regex": "matches",
    "not_regex": "does not match",
}
_FENCED: Final = re.compile(r"^```(?:json)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_FAULTS: Final = 3
_LITERAL: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords of a schema that hold values, and no schemas."""


def check_text(expected: ExpectedText, text: str, of: str, kind: CheckKind) -> Iterator[CheckResult]:
    """Yield a result for each part of what is expected of a text; `of` is how a sentence names it."""
    text = _plain(text)
    for name, verb in _VERBS.items():
        for part in getattr(expected, name):
            at = _position(part, text, expected, is_pattern=name.endswith("regex"))
            passed = (at < 0) is name.startswith("not_")
            yield result(kind, f"{of} {verb} {quote(part)}.", passed=passed, evidence=around(text, at))
    if expected.contains_any:
        at = max(_position(part, text, expected, is_pattern=False) for part in expected.contains_any)
        parts = listed(list(map(quote, expected.contains_any)))
        yield result(kind, f"{of} contains one of {parts}.", passed=at >= 0, evidence=around(text, at))
    if expected.equals is not None:
        wanted = _plain(expected.equals)
        same = wanted.casefold() == text.casefold() if expected.ignore_case else wanted == text
        yield result(kind, f"{of} is {quote(wanted)}.", passed=same, evidence=around(text, -1))
    if expected.json_schema is not None:
        faults = _schema_faults(expected.json_schema, text)
        evidence = "; ".join(faults) or around(text, -1)
        yield result(kind, f"{of} is JSON that fits its schema.", passed=not faults, evidence=evidence)


def check_readable(expected: ExpectedText) -> None:
    """Raise EvalError for a pattern or a schema that nothing can be held against."""
    for pattern in (*expected.regex, *expected.not_regex):
        compile_pattern(pattern)
    if expected.json_schema is not None:
        _validator(expected.json_schema)


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> Any:
    """Compile a pattern with RE2, whose time is linear. Raises EvalError."""
    import re2  # noqa: PLC0415 - start-up does not need it

    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise EvalError("a pattern is no Unicode text") from error
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise EvalError(
            f"RE2 does not understand the pattern {quote(pattern)}: {reason}. "
            "It has no lookaround and no backreferences: write two patterns (`not_regex`)"
        ) from error


def _position(part: str, text: str, expected: ExpectedText, *, is_pattern: bool) -> int:
    """Return where a text holds a part, or what matches a pattern; -1: nowhere."""
    if is_pattern:
        match = compile_pattern(part, ignore_case=expected.ignore_case).search(text)
        return match.start() if match else -1
    if expected.ignore_case:
        return text.casefold().find(_plain(part).casefold())
    return text.find(_plain(part))


def _plain(text: str) -> str:
    """Return a text with line ends of POSIX, nothing blank at its end, and without what cannot be written."""
    return text.replace("\r\n", "\n").encode(errors="replace").decode().rstrip()


def _schema_faults(schema: Mapping[str, Any], text: str) -> list[str]:
    """Return what of a text, or of the one fenced block of JSON in it, does not fit a schema."""
    blocks = _FENCED.findall(text)
    try:
        value = msgspec.json.decode((blocks[0] if len(blocks) == 1 else text)[: MAX_JSON + 1])
        faults = islice(_validator(schema).iter_errors(value), _FAULTS)
        return [f"{fault.json_path}: {fault.message[:300]}" for fault in faults]
    except msgspec.DecodeError as error:
        return [f"It is no JSON ({error}) with {len(blocks)} fenced blocks. {around(text, -1)}"]
    except RecursionError:
        return ["The schema refers to itself, or the text is nested too deep"]


def _validator(schema: Mapping[str, Any]) -> Any:
    """Return what validates, with patterns of RE2, and fetching nothing. Raises EvalError."""
    try:
        from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - of the extra `evals`
        from jsonschema.validators import extend  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise EvalError("a package reads `json_schema`: pip install 'skills-agent[evals]'") from error
    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError) as error:
        raise EvalError(f"the JSON schema is not valid: {str(error).splitlines()[0]}") from error
    _check_patterns(schema)
    return extend(Draft202012Validator, {"pattern": _pattern})(schema, registry=Registry())


def _check_patterns(schema: Any) -> None:
    """Raise for patterns that RE2 does not understand, and for the one keyword that Python would read."""
    if isinstance(schema, list):
        for part in schema:
            _check_patterns(part)
    if isinstance(schema, Mapping):
        if "patternProperties" in schema:
            raise EvalError("`patternProperties` of a JSON schema is not read here")
        if isinstance(pattern := schema.get("pattern"), str):
            compile_pattern(pattern)
        for name, part in schema.items():
            if name not in _LITERAL:
                _check_patterns(part)


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    """Apply the keyword `pattern`, as jsonschema calls it, with RE2."""
    from jsonschema import ValidationError  # noqa: PLC0415 - of the extra `evals`

    if validator.is_type(instance, "string") and compile_pattern(pattern).search(_plain(instance)) is None:
        yield ValidationError(f"{quote(instance)} does not match {quote(pattern)}")
