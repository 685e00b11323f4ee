"""A run as JUnit's XML, which every CI reads."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from skills_agent.evals.cases.result import EvalResult, Outcome
from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.report.wording import failed_checks, reason

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""XML 1.0 cannot hold these (section 2.2), not even escaped."""
_LONGEST: Final = 20_000
_SECONDS: Final = len("2026-11-23T10:00:00")
"""Of a time: the schema of JUnit has no zone."""
_TAGS: Final[dict[Outcome, str]] = {
    "failed": "failure",
    "error": "error",
    "timeout": "error",
    "refused": "error",
    "ungraded": "skipped",
}


def junit(summary: Summary) -> str:
    """Return a suite for each model and arm, with a test case for each run.

    What does not pass without the skill is skipped: it is what the skill is there for, and no fault.
    """
    root = ET.Element("testsuites", name="skills-agent eval")
    suites: dict[tuple[str, str], list[EvalResult]] = {}
    for row in summary.cases:
        for arm in ("with", "without"):
            for result in row.runs.get(arm, ()):
                suites.setdefault((result.model, arm), []).append(result)
    total: Counter[str] = Counter()
    for (model, arm), results in suites.items():
        counts = Counter(_tag(each) for each in results)
        total += counts
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(f"{model} ({arm})"),
            timestamp=_clean(summary.head.at[:_SECONDS]),
        )
        suite.attrib.update(_counts(counts, results))
        properties = ET.SubElement(suite, "properties")
        for name, value in _properties(summary, model, arm).items():
            ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))
        # GitLab knows a test case by its class and its name alone, in whichever suite it is.
        where = f" ({model}, {arm})" if len(suites) > 1 else ""
        for each in results:
            suite.append(_case(each, where, is_repeated=summary.head.repeat > 1))
    everything = [each for results in suites.values() for each in results]
    root.attrib.update(_counts(total, everything))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(counts: Counter[str], results: Sequence[EvalResult]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": f"{sum(each.spent.seconds for each in results):.3f}",
    }


def _properties(summary: Summary, model: str, arm: str) -> dict[str, str]:
    head = summary.head
    found = {"run": head.id, "model": model, "arm": arm, "grader": head.grader, "seed": str(head.seed)}
    found |= {f"skill.{name}": digest for name, digest in head.skills.items()}
    return {name: value for name, value in found.items() if value}


def _tag(result: EvalResult) -> str:
    tag = _TAGS.get(result.outcome, "")
    return "skipped" if tag and result.arm == "without" else tag


def _case(result: EvalResult, where: str, *, is_repeated: bool) -> ET.Element:
    group, _, name = result.case.rpartition("/")
    repeat = f" [{result.repeat + 1}]" if is_repeated or result.repeat else ""
    case = ET.Element(
        "testcase",
        classname=_clean(f"{group or 'evals'}{where}"),
        name=_clean(f"{name}{repeat}"),
        time=f"{result.spent.seconds:.3f}",
    )
    tag = _tag(result)
    if tag:
        said = reason(result) or result.outcome
        message = f"{result.outcome} without the skill: {said}" if result.arm == "without" else said
        fault = ET.SubElement(case, tag, message=_clean(message))
        if tag != "skipped":
            fault.set("type", result.outcome)
            lines = [result.error, *(f"{each.text} {each.evidence}" for each in failed_checks(result))]
            fault.text = _clean("\n".join(filter(None, lines)))
    if result.thread:
        ET.SubElement(case, "system-out").text = _clean(f"skills-agent threads show {result.thread}")
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)[:_LONGEST]
