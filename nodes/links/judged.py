"""judged: policy, budget and approval, as they are now."""

from itertools import takewhile
from typing import Any

from skills_agent.nodes.interrupts import answer_unknown
from skills_agent.nodes.links.attempt import Attempt, Rest
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.policy.reasons import reason
from skills_agent.skills.policy.verdict import ApprovalNeededError
from skills_agent.state.budget import counts_of_turn, spent_on_calls
from skills_agent.state.transcript import LOAD_SKILL, open_calls


def judged(attempt: Attempt, rest: Rest) -> Steps[Any]:
    """Go on where the call is what was approved or allowed, and would be allowed now.

    An effect that was cut off is a question of its own, behind this link. Raises ApprovalNeededError.
    """
    entry = attempt.entry
    is_unknown = entry is not None and entry.is_unknown
    if text := _objection(attempt):
        if entry is None or not is_unknown:
            raise attempt.refused(text)
        again = f"It is not run again. {text.removeprefix('Not run: ')}"
        return attempt.closed(answer_unknown(attempt.id, entry, again))
    # What is held has run, and a person answers for what becomes of it.
    if not is_unknown and not attempt.is_approved and not (entry and attempt.at.policy.held(entry.key)):
        if attempt.at.policy.approval == "fail":
            raise ApprovalNeededError(attempt.name, attempt.verdict.reason)
        text = reason({"unapproved": attempt.name})
        attempt.at.observer.doubted(attempt.call, text)
        raise attempt.refused(text)
    return (yield from rest(attempt))


def _objection(attempt: Attempt) -> str:
    """Return why the call must not run, with or without a person; empty where it may."""
    if not attempt.judge.holds(attempt.request["approved"], attempt.judged):
        return reason({"changed": attempt.name})
    if attempt.verdict.decision == "deny":
        return attempt.verdict.reason
    budget = _spent_budget(attempt)
    return reason({"budget": budget}) if budget else ""


def _spent_budget(attempt: Attempt) -> str | None:
    """Name the budget that has no room for this call, after those before it in its message."""
    state, spec_of = attempt.state, attempt.at.policy.grammar.spec
    ahead = takewhile(lambda each: each["id"] != attempt.id, open_calls(state["messages"]))
    verdicts = [state["verdicts"].get(each["id"] or "") for each in ahead if each["name"] != LOAD_SKILL]
    tools = [spec_of(verdict["tool"]) for verdict in verdicts if verdict and verdict["decision"] == "allow"]
    counts, is_script = counts_of_turn(state), attempt.spec.counts_as == "script"
    scripts = counts["script_runs"] + sum(tool.counts_as == "script" for tool in tools)
    limits = attempt.judge.context.narrow(attempt.at.limits)
    return spent_on_calls(limits, counts["tool_calls"] + len(tools), scripts if is_script else 0)
