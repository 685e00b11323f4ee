"""The calls of a run, held against those that a case expects.

The modes are those of LangChain's agentevals (`strict`, `unordered`, `subset`, `superset`), but calls are
paired so that as many fit as can, and `strict` compares the calls of one reply after the other, in any order
within one. What the model asked for counts as made, whether or not it was let run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from skills_agent.evals.cases.case import ExpectedCall, ExpectedCalls
from skills_agent.evals.cases.excerpts import listed, result
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.skills.policy.command_patterns import word_matches
from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.skills.text import cut, one_line
from skills_agent.skills.visible import visible_line

SKILL_TOOLS: Final = ("load_skill", "search_skills", "unload_skill")
"""Calls of these are compared only where one of them is named."""
_SHOWN: Final = 100
"""Characters of one call in a sentence."""
_MODES: Final = {
    "strict": "The calls are, in this order: {}.",
    "unordered": "The calls are, in any order: {}.",
    "subset": "No calls are made but of these: {}.",
    "superset": "Among the calls are: {}.",
}
_STATUS: Final = {"ok": "", "error": " (failed)", "refused": " (refused)", "unanswered": " (no result)"}


def check_calls(expected: ExpectedCalls, made: Sequence[MadeCall]) -> Iterator[CheckResult]:
    """Yield a result for the list of calls, for each chain, and for each forbidden call."""
    if expected.calls is not None:
        sentence = _MODES[expected.mode].format(listed(list(map(_text, expected.calls))) or "none")
        fault = _list_fault(expected, made)
        yield result("calls", sentence, passed=not fault, evidence=fault or f"Made: {_shown(made)}.")
    for chain in filter(None, expected.order):
        sentence = f"The calls are in the order {', then '.join(map(_text, chain))}."
        fault = _chain_fault(chain, _replies(made))
        yield result("order", sentence, passed=not fault, evidence=fault or f"Made: {_shown(made)}.")
    for forbidden in expected.forbidden:
        tried = [call for call in made if fits(forbidden, call)]
        sentence = f"There is no call of {_text(forbidden)}."
        yield result("forbidden", sentence, passed=not tried, evidence=f"Made: {_shown(tried)}.")


def fits(expected: ExpectedCall, made: MadeCall) -> bool:
    """Return whether a call is one that is expected."""
    if not word_matches(expected.tool, made.tool):
        return False
    return expected.args is None or _args_fit(expected.args, made.args, is_exact=expected.match == "exact")


def pair(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """Give each row one of its choices, no two the same, to as many rows as can be (by augmenting paths)."""
    owner: dict[int, int] = {}

    def give(row: int, seen: set[int]) -> bool:
        for choice in choices[row]:
            if choice not in seen:
                seen.add(choice)
                if choice not in owner or give(owner[choice], seen):
                    owner[choice] = row
                    return True
        return False

    for row in range(len(choices)):
        give(row, set())
    return {row: choice for choice, row in owner.items()}


def _replies(made: Sequence[MadeCall]) -> list[list[MadeCall]]:
    """Return the calls of each reply of the model: those of one ran side by side."""
    return [list(calls) for _, calls in groupby(made, key=lambda call: call.step)]


def _list_fault(expected: ExpectedCalls, made: Sequence[MadeCall]) -> str:
    wanted = expected.calls or ()
    if not any(
        word_matches(each.tool, tool) for each in wanted if each.tool.strip("*") for tool in SKILL_TOOLS
    ):
        made = [call for call in made if call.tool not in SKILL_TOOLS]
    if expected.mode == "strict":
        return _strict_fault(wanted, made)
    given = pair([[at for at, call in enumerate(made) if fits(each, call)] for each in wanted])
    missing = [_text(each) for at, each in enumerate(wanted) if at not in given]
    unexpected = [call for at, call in enumerate(made) if at not in given.values()]
    faults = []
    if missing and expected.mode != "subset":
        faults.append(f"Missing: {listed(missing)}. Made: {_shown(made)}.")
    if unexpected and expected.mode != "superset":
        faults.append(f"Not expected: {_shown(unexpected)}.")
    return " ".join(faults)


def _strict_fault(wanted: Sequence[ExpectedCall], made: Sequence[MadeCall]) -> str:
    at = 0
    for calls in _replies(made):
        part = wanted[at : at + len(calls)]
        given = pair([[index for index, each in enumerate(part) if fits(each, call)] for call in calls])
        wrong = [call for index, call in enumerate(calls) if index not in given]
        if wrong:
            instead = [_text(each) for index, each in enumerate(part) if index not in given.values()]
            expected = listed(instead) or "no more"
            return f"Call {at + 1} of {len(made)}: expected {expected}, found {_shown(wrong)}."
        at += len(calls)
    return f"Missing at the end: {listed(list(map(_text, wanted[at:])))}." if wanted[at:] else ""


def _chain_fault(chain: Sequence[ExpectedCall], replies: Sequence[Sequence[MadeCall]]) -> str:
    """Return what is wrong with an order; empty: nothing is.

    Each is found in a later reply than the one before it: what ran side by side came after nothing. And what
    fits it, and nothing before it in the chain, was not called earlier.
    """
    begin = 0
    for place, each in enumerate(chain):
        before = chain[:place]
        early = [
            call
            for call in (call for calls in replies[:begin] for call in calls)
            if fits(each, call) and not any(fits(other, call) for other in before)
        ]
        if early:
            return f"{_shown(early[:1])} did not come after {_text(before[-1])}."
        later = (at for at in range(begin, len(replies)) if any(fits(each, call) for call in replies[at]))
        if (found := next(later, None)) is None:
            after = f" after {_text(before[-1])}" if before else ""
            made = _shown([call for calls in replies for call in calls])
            return f"There is no call of {_text(each)}{after}. Made: {made}."
        begin = found + 1
    return ""


def _args_fit(expected: Any, passed: Any, *, is_exact: bool) -> bool:
    """Compare two values. What a file writes as the text "5" or the number 5 is the same."""
    if isinstance(expected, Mapping) and isinstance(passed, Mapping):
        names_fit = expected.keys() == passed.keys() if is_exact else expected.keys() <= passed.keys()
        return names_fit and all(
            _args_fit(expected[name], passed[name], is_exact=is_exact) for name in expected
        )
    if isinstance(expected, list | tuple) and isinstance(passed, list | tuple):
        pairs = zip(expected, passed, strict=False)
        return len(expected) == len(passed) and all(_args_fit(*each, is_exact=is_exact) for each in pairs)
    return _written(expected) == _written(passed)


def _written(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _shown(calls: Sequence[MadeCall]) -> str:
    return listed([_call_text(call.tool, call.args) + _STATUS[call.status] for call in calls]) or "none"


def _text(expected: ExpectedCall) -> str:
    return visible_line(expected.tool) if expected.args is None else _call_text(expected.tool, expected.args)


def _call_text(tool: str, args: Mapping[str, Any]) -> str:
    spec = TOOL_SPECS.get(tool) or ToolSpec(name=tool)
    return cut(visible_line(one_line(spec.show(args)[: 4 * _SHOWN])), _SHOWN)
