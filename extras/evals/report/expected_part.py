"""Which skills and calls a case expects, as they stand beside those that it got."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from skills_agent.evals.cases.case import EvalCase, ExpectedCall, ExpectedCalls, ExpectedSkills
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.evals.pages.elements import Html, element, joined
from skills_agent.skills.text import one_line

_MODES: Final = {
    "strict": "These calls, in this order, and no others:",
    "unordered": "These calls, in any order, and no others:",
    "subset": "No calls but these:",
    "superset": "These calls at least:",
}
_SKILLS: Final = {
    "all": "Skills: {}",
    "any": "One of the skills {}",
    "none": "Not: {}",
    "only": "Only the skills {}",
}
_ARGUMENTS: Final = 240
_NAME: Final = 80
_MOST: Final = 12
"""Names of skills, calls and chains."""


def expected_part(case: EvalCase) -> Iterator[Html]:
    """Yield the skills and calls that a case expects; what else it expects is among the checks."""
    if case.expect.skills:
        yield element("p", _skills_text(case.expect.skills))
    if case.kind == "task" and case.expect.calls:
        yield from _calls(case.expect.calls)


def _skills_text(expected: ExpectedSkills) -> str:
    if not expected.names:
        return "No skill" if expected.mode in {"none", "only"} else "Any skills"
    return _SKILLS[expected.mode].format(", ".join(expected.names[:_MOST]))


def _calls(expected: ExpectedCalls) -> Iterator[Html]:
    if expected.calls is not None:
        if expected.calls:
            yield element("p", _MODES[expected.mode])
            yield element("ol", [element("li", code_of(each, _ARGUMENTS)) for each in expected.calls[:_MOST]])
        elif expected.mode != "superset":
            yield element("p", "No calls")
    for chain in expected.order[:_MOST]:
        yield element("p", "In this order: ", _arrows(chain))
    if expected.forbidden:
        yield element("p", "Never: ", *_listed(expected.forbidden[:_MOST], ", "))


def _arrows(chain: Sequence[ExpectedCall]) -> Html:
    return joined(*_listed(chain[:_MOST], " \u2192 "))


def _listed(calls: Iterable[ExpectedCall], gap: str) -> Iterator[Html | str]:
    for place, each in enumerate(calls):
        if place:
            yield gap
        yield code_of(each, _NAME)


def code_of(call: MadeCall | ExpectedCall, limit: int) -> Html:
    args = json.dumps(call.args, ensure_ascii=False, separators=(",", ":"), default=str) if call.args else ""
    return element(
        "code", element("b", one_line(call.tool, _NAME)), f" {one_line(args, limit)}" if args else ""
    )
