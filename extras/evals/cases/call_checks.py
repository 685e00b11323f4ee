"""The calls of a run, held against those that a case expects.

The modes are those of LangChain's agentevals 0.0.9 (`strict`, `unordered`, `subset`, `superset`), with
three differences. Calls are paired so that as many fit as can: agentevals gives each expected call the
first that fits, and so misses a pairing where a wide expectation took what a narrow one needs. Arguments
are compared in one direction: for `subset` and `unordered` agentevals turns theirs round, too. And `strict`
compares the calls of one reply after the other, in any order within one, whatever other messages there are.

What the model asked for counts as made, whether or not it was let run.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final

from skills_agent.evals.cases.case import ArgsMatch, ExpectedCall, ExpectedCalls
from skills_agent.evals.cases.excerpts import listed, result
from skills_agent.evals.cases.patterns import compile_pattern
from skills_agent.evals.cases.result import CheckResult
from skills_agent.evals.cases.trajectory import MadeCall
from skills_agent.skills.policy.tool_spec import TOOL_SPECS, ToolSpec
from skills_agent.skills.text import count, cut, one_line
from skills_agent.skills.visible import visible_line

SKILL_TOOLS: Final = ("load_skill", "search_skills", "unload_skill")
"""Calls of these are compared only where one of them is named."""
MAX_SHOWN: Final = 100
"""Characters of one call in a sentence."""
_MODES: Final = {
    "strict": "The calls are, in this order: {calls}.",
    "unordered": "The calls are, in any order: {calls}.",
    "subset": "No calls are made but of these: {calls}.",
    "superset": "Among the calls are: {calls}.",
}
_STATUS: Final = {"ok": "", "error": " (failed)", "refused": " (refused)", "unanswered": " (no result)"}
Replies = Sequence[Sequence[MadeCall]]


def check_calls(expected: ExpectedCalls, made: Sequence[MadeCall]) -> Iterator[CheckResult]:
    """Yield a result for the list of calls, for each chain, and for each forbidden call."""
    if expected.calls is not None:
        yield _check_list(expected, made)
    for chain in filter(None, expected.order):
        yield _check_chain(chain, made)
    for forbidden in expected.forbidden:
        tried = [call for call in made if fits(forbidden, call)]
        sentence = f"There is no call of {_expected_text(forbidden)}."
        yield result("forbidden", sentence, passed=not tried, evidence=_shown(tried))


def fits(expected: ExpectedCall, made: MadeCall) -> bool:
    """Return whether a call is one that is expected."""
    return _name_fits(expected.tool, made.tool) and args_fit(expected, made.args)


def args_fit(expected: ExpectedCall, passed: Mapping[str, Any]) -> bool:
    """Return whether arguments are as expected; arguments within arguments are compared in the same way."""
    if expected.args is None or expected.match == "ignore":
        return True
    try:
        return _compare(expected.match, expected.args, passed)
    except RecursionError:
        return False


def names_skill_tools(expected: Sequence[ExpectedCall]) -> bool:
    """Return whether one of SKILL_TOOLS is named by what is expected; `*` alone names none."""
    patterns = [each.tool for each in expected if each.tool.strip("*")]
    return any(_name_fits(pattern, tool) for pattern in patterns for tool in SKILL_TOOLS)


def pair(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """Give each row one of its choices, no two the same, to as many rows as can be (by augmenting paths)."""
    given: dict[int, int] = {}
    owner: dict[int, int] = {}
    for row in range(len(choices)):
        came_from: dict[int, int] = {}
        queue, free = deque([row]), None
        while queue and free is None:
            at = queue.popleft()
            for choice in choices[at]:
                if choice not in came_from:
                    came_from[choice] = at
                    if choice not in owner:
                        free = choice
                        break
                    queue.append(owner[choice])
        while free is not None:
            at = came_from[free]
            before = given.get(at)
            owner[free], given[at] = at, free
            free = before
    return given


def replies_of(made: Sequence[MadeCall]) -> list[list[MadeCall]]:
    """Return the calls of each reply of the model: those of one ran side by side."""
    return [list(calls) for _, calls in groupby(made, key=lambda call: (call.turn, call.step))]


def _check_list(expected: ExpectedCalls, made: Sequence[MadeCall]) -> CheckResult:
    wanted = expected.calls or ()
    if not names_skill_tools(wanted):
        made = [call for call in made if call.tool not in SKILL_TOOLS]
    shown = listed([_expected_text(each) for each in wanted]) or "none"
    sentence = _MODES[expected.mode].format(calls=shown)
    if expected.mode == "strict":
        evidence = _strict_fault(wanted, made)
    else:
        evidence = _unordered_fault(wanted, made, expected.mode)
    return result(
        "calls", sentence, passed=not evidence, evidence=evidence or _shown(made) or "No calls were made."
    )


def _unordered_fault(wanted: Sequence[ExpectedCall], made: Sequence[MadeCall], mode: str) -> str:
    given = pair([[at for at, call in enumerate(made) if fits(each, call)] for each in wanted])
    missing = [_expected_text(each) for at, each in enumerate(wanted) if at not in given]
    unexpected = [call for at, call in enumerate(made) if at not in given.values()]
    faults = []
    if missing and mode != "subset":
        faults.append(f"Missing: {listed(missing)}.")
    if unexpected and mode != "superset":
        faults.append(f"Not expected: {_shown(unexpected)}")
    elif faults:
        faults.append(f"Made: {_shown(made) or 'none.'}")
    return " ".join(faults)


def _strict_fault(wanted: Sequence[ExpectedCall], made: Sequence[MadeCall]) -> str:
    at = 0
    for calls in replies_of(made):
        part = wanted[at : at + len(calls)]
        given = pair([[index for index, each in enumerate(part) if fits(each, call)] for call in calls])
        wrong = [call for index, call in enumerate(calls) if index not in given]
        if wrong:
            instead = [each for index, each in enumerate(part) if index not in given.values()]
            expected = listed([_expected_text(each) for each in instead]) or "no more calls"
            return f"Call {at + 1} of {len(made)}: expected {expected}, found {_shown(wrong)}"
        at += len(calls)
    missing = [_expected_text(each) for each in wanted[at:]]
    return f"After {count(at, 'call')} these are missing: {listed(missing)}." if missing else ""


def _check_chain(chain: Sequence[ExpectedCall], made: Sequence[MadeCall]) -> CheckResult:
    sentence = f"The calls are in the order {', then '.join(_expected_text(each) for each in chain)}."
    fault = _chain_fault(chain, replies_of(made))
    return result("order", sentence, passed=not fault, evidence=fault or _shown(made))


def _chain_fault(chain: Sequence[ExpectedCall], replies: Replies) -> str:
    """Return what is wrong with an order; empty: nothing is.

    Each is found in a later reply than the one before it: what ran side by side came after nothing. And what
    fits it, and nothing before it in the chain, was not called earlier.
    """
    begin = 0
    for place, each in enumerate(chain):
        found = next(
            (at for at in range(begin, len(replies)) if any(fits(each, one) for one in replies[at])), None
        )
        before = chain[:place]
        early = [
            call
            for calls in replies[:begin]
            for call in calls
            if fits(each, call) and not any(fits(other, call) for other in before)
        ]
        if early:
            return f"{_shown(early[:1])} It did not come after {_expected_text(before[-1])}."
        if found is None:
            after = f" after {_expected_text(before[-1])}" if before else ""
            return f"There is no call of {_expected_text(each)}{after}. Made: {_made_texts(replies)}"
        begin = found + 1
    return ""


def _made_texts(replies: Replies) -> str:
    return _shown([call for calls in replies for call in calls]) or "none."


def _shown(calls: Sequence[MadeCall]) -> str:
    texts = [_call_text(call.tool, call.args) + _STATUS[call.status] for call in calls]
    return f"{listed(texts)}." if texts else ""


def _expected_text(expected: ExpectedCall) -> str:
    if expected.args is None or expected.match == "ignore":
        return visible_line(expected.tool)
    return _call_text(expected.tool, expected.args)


def _call_text(tool: str, args: Mapping[str, Any]) -> str:
    spec = TOOL_SPECS.get(tool) or ToolSpec(name=tool)
    return cut(visible_line(one_line(spec.show(args)[: 4 * MAX_SHOWN])), MAX_SHOWN)


@cache
def _name_pattern(pattern: str) -> Any:
    import re2  # noqa: PLC0415 - start-up does not need it

    return compile_pattern("(?s)" + ".*".join(re2.escape(piece) for piece in pattern.split("*")))


def _name_fits(pattern: str, name: str) -> bool:
    return pattern == name or ("*" in pattern and _name_pattern(pattern).fullmatch(name) is not None)


def _compare(match: ArgsMatch, expected: Any, passed: Any) -> bool:
    """Compare two values as JSON has them: 1 is 1.0, and true is no number."""
    if isinstance(expected, Mapping) and isinstance(passed, Mapping):
        return _NAMES[match](expected.keys(), passed.keys()) and all(
            _compare(match, expected[name], passed[name]) for name in expected.keys() & passed.keys()
        )
    if isinstance(expected, list | tuple) and isinstance(passed, list | tuple):
        return len(expected) == len(passed) and all(map(_compare, [match] * len(expected), expected, passed))
    return bool(expected == passed) and isinstance(expected, bool) == isinstance(passed, bool)


_NAMES: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "exact": lambda expected, passed: bool(expected == passed),
    "subset": lambda expected, passed: bool(passed <= expected),
    "superset": lambda expected, passed: bool(expected <= passed),
}
