"""A run as JUnit's XML, which every CI reads."""

import re
from collections import Counter
from typing import Final
from xml.etree import ElementTree as ET

from skills_agent.graph.evals.report.wording import failed_checks, reason
from skills_agent.skills.evals.result import EvalResult
from skills_agent.skills.evals.summary import Summary

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""XML 1.0 cannot hold these (section 2.2), not even escaped."""
_LONGEST: Final = 20_000


def junit(summary: Summary) -> str:
    """Return a suite for each model and arm, with a test case for each run."""
    root = ET.Element("testsuites", name="skills-agent eval")
    suites: dict[tuple[str, str], list[EvalResult]] = {}
    for row in summary.cases:
        for arm in ("with", "without"):
            for result in row.runs.get(arm, ()):
                suites.setdefault((result.model, arm), []).append(result)
    for (model, arm), results in suites.items():
        counts = Counter(each.outcome for each in results)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(f"{model} ({arm})"),
            timestamp=_clean(summary.head.at),
            tests=str(len(results)),
            failures=str(counts["failed"]),
            errors=str(counts["error"] + counts["timeout"] + counts["refused"]),
            skipped=str(counts["ungraded"]),
            time=f"{sum(each.spent.seconds for each in results):.3f}",
        )
        for each in results:
            suite.append(_case(each, is_repeated=summary.head.repeat > 1))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(result: EvalResult, *, is_repeated: bool) -> ET.Element:
    group, _, name = result.case.rpartition("/")
    repeat = f" [{result.repeat + 1}]" if is_repeated or result.repeat else ""
    case = ET.Element(
        "testcase",
        classname=_clean(group or "evals"),
        name=_clean(f"{name}{repeat}"),
        time=f"{result.spent.seconds:.3f}",
    )
    tag = {"failed": "failure", "ungraded": "skipped", "passed": ""}.get(result.outcome, "error")
    if tag:
        fault = ET.SubElement(case, tag, message=_clean(reason(result) or result.outcome))
        if tag != "skipped":
            fault.set("type", result.outcome)
            lines = [result.error, *(f"{each.text} {each.evidence}" for each in failed_checks(result))]
            fault.text = _clean("\n".join(filter(None, lines)))
    if result.thread:
        ET.SubElement(case, "system-out").text = _clean(f"skills-agent threads show {result.thread}")
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)[:_LONGEST]
