"""What a text holds: the last answer, or a file.

Line ends are those of POSIX, and white space at the end of the text is no part of it: `$` of a pattern is
where a person sees the end.
"""

from collections.abc import Iterator
from typing import Any

from skills_agent.evals.cases.case import ExpectedText
from skills_agent.evals.cases.errors import CheckError, PatternError
from skills_agent.evals.cases.excerpts import around, difference, listed, quote, result
from skills_agent.evals.cases.json_checks import schema_faults
from skills_agent.evals.cases.patterns import compile_pattern
from skills_agent.evals.cases.result import CheckKind, CheckResult


def check_text(expected: ExpectedText, text: str, of: str, kind: CheckKind) -> Iterator[CheckResult]:
    """Yield a result for each part of what is expected of a text; `of` is how a sentence names it."""
    text = _plain(text).rstrip()
    yield from _contents(expected, text, of, kind)
    for pattern in expected.regex:
        yield _matched(pattern, text, expected, of, kind)
    for pattern in expected.not_regex:
        yield _not_matched(pattern, text, expected, of, kind)
    if expected.equals is not None:
        yield _equal(expected.equals, text, expected, of, kind)
    if expected.json_schema is not None:
        faults = _schema_faults(expected.json_schema, text)
        evidence = "; ".join(faults) or beginning(text)
        yield result(kind, f"{of} is JSON that fits its schema.", passed=not faults, evidence=evidence)


def beginning(text: str) -> str:
    """Say how a text begins."""
    return f"It begins with {quote(text, 400)}" if text.strip() else "It is empty."


def _contents(expected: ExpectedText, text: str, of: str, kind: CheckKind) -> Iterator[CheckResult]:
    folded = text.casefold() if expected.ignore_case else text

    def place(part: str) -> int:
        part = _plain(part)
        return folded.find(part.casefold() if expected.ignore_case else part)

    def shown(at: int) -> str:
        return around(text, at) if at >= 0 else beginning(text)

    for part in expected.contains:
        at = place(part)
        yield result(kind, f"{of} contains {quote(part)}.", passed=at >= 0, evidence=shown(at))
    if expected.contains_any:
        at = max(map(place, expected.contains_any))
        parts = listed([quote(part) for part in expected.contains_any])
        yield result(kind, f"{of} contains one of {parts}.", passed=at >= 0, evidence=shown(at))
    for part in expected.not_contains:
        at = place(part)
        evidence = shown(at) if at >= 0 else ""
        yield result(kind, f"{of} does not contain {quote(part)}.", passed=at < 0, evidence=evidence)


def _matched(pattern: str, text: str, expected: ExpectedText, of: str, kind: CheckKind) -> CheckResult:
    sentence = f"{of} matches {quote(pattern)}."
    try:
        match = compile_pattern(pattern, ignore_case=expected.ignore_case).search(text)
    except PatternError as error:
        return result(kind, sentence, passed=False, evidence=str(error))
    evidence = around(text, match.start()) if match else beginning(text)
    return result(kind, sentence, passed=match is not None, evidence=evidence)


def _not_matched(pattern: str, text: str, expected: ExpectedText, of: str, kind: CheckKind) -> CheckResult:
    sentence = f"{of} does not match {quote(pattern)}."
    try:
        match = compile_pattern(pattern, ignore_case=expected.ignore_case).search(text)
    except PatternError as error:
        return result(kind, sentence, passed=False, evidence=str(error))
    evidence = around(text, match.start()) if match else ""
    return result(kind, sentence, passed=match is None, evidence=evidence)


def _equal(wanted: str, text: str, expected: ExpectedText, of: str, kind: CheckKind) -> CheckResult:
    ours, theirs = _without_trailing(wanted), _without_trailing(text)
    same = ours.casefold() == theirs.casefold() if expected.ignore_case else ours == theirs
    evidence = beginning(text) if same or not theirs else difference(ours, theirs)
    return result(kind, f"{of} is {quote(wanted)}.", passed=same, evidence=evidence)


def _schema_faults(schema: dict[str, Any], text: str) -> tuple[str, ...]:
    try:
        return schema_faults(schema, text)
    except CheckError as error:
        return (str(error),)


def _plain(text: str) -> str:
    """Return a text with line ends of POSIX, and without what cannot be written."""
    return text.replace("\r\n", "\n").encode(errors="replace").decode()


def _without_trailing(text: str) -> str:
    return "\n".join(line.rstrip() for line in _plain(text).rstrip().split("\n"))
