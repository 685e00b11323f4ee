"""again: what becomes of an effect that was started, and whose outcome nobody knows."""

import logging
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import ToolMessage

from skills_agent.nodes.approval_facts import describe_question
from skills_agent.nodes.effects import JournalEntry
from skills_agent.nodes.interrupts import (
    UNKNOWN,
    Approve,
    Reject,
    action_request,
    answer_unknown,
    ask_alone,
    with_words,
)
from skills_agent.nodes.links.attempt import Attempt, Rest
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.errors import SkillError
from skills_agent.skills.policy.reasons import Facts
from skills_agent.skills.policy.verdict import ApprovalNeededError
from skills_agent.skills.scripts.runner import HeldRun
from skills_agent.skills.text import cut

logger = logging.getLogger(__name__)

_LONGEST_FINDING: Final = 10_000
"""Characters of what a tool says of a call that was cut off."""
_BY_A_PERSON: Final = "A person had it run again"


def again(attempt: Attempt, rest: Rest) -> Steps[Any]:
    """Run it again where its tool, its skill or a person says so; one approval is one attempt.

    Raises ApprovalNeededError.
    """
    entry, invocation, at = attempt.entry, attempt.invocation, attempt.at
    held = at.policy.held(entry.key) if entry and entry.is_unknown else None
    if entry and held and not held.is_cut_off:  # it ended: only what it changed is open
        attempt.entry = entry = replace(entry, status="paused")
    if entry is None or invocation is None or not entry.is_unknown:
        return (yield from rest(attempt))
    answers, why = entry.answers, _recovery(attempt, entry)
    if isinstance(why, ToolMessage):
        return attempt.closed(why)
    if not why and _is_answered(attempt, entry):
        why = _BY_A_PERSON
    if why:
        at.skip_answers(answers)
    elif at.policy.approval == "deny":
        return attempt.closed(
            answer_unknown(attempt.id, entry, "It was not run again: nobody is asked here.")
        )
    elif at.policy.approval == "fail":
        raise ApprovalNeededError(attempt.name, entry.description)
    else:
        decision = _ask(attempt, entry, held)
        message, is_repeated = getattr(decision, "message", ""), isinstance(decision, Approve)
        at.observer.answered(attempt.request, entry.description, again=is_repeated, message=message)
        answers, why = entry.attempt + 1, _BY_A_PERSON
        if not is_repeated:
            why = with_words("A person decided not to run it again", message)
            if held is None:
                return attempt.closed(answer_unknown(attempt.id, entry, why))
            attempt.is_resumed = True  # and its tool asks what becomes of its changes
    attempt.notes.append(f"[{entry.beginning}. {why.removesuffix('.')}.]")
    attempt.entry = replace(entry.again(invocation, attempt.checkpoint), answers=answers)
    return (yield from rest(attempt))


def _ask(attempt: Attempt, entry: JournalEntry, held: HeldRun | None) -> Approve | Reject:
    # What the tool itself asked in this attempt, and what was asked about earlier ones, comes before.
    attempt.at.skip_answers(entry.attempt)
    call = attempt.judged
    facts: Facts = {"again": True}
    with suppress(SkillError):
        facts = {**attempt.judge.facts(call), **facts}
    more = f" In a copy it {held.result.changed}. Leave it, and you are asked about that." if held else ""
    description = describe_question(call, facts, attempt.at.policy, unknown=entry.description + more)
    request = {**action_request(call, description), UNKNOWN: entry.as_json}
    decision: Approve | Reject = ask_alone(request, "a call that was cut off holds for one attempt")
    return decision


def _is_answered(attempt: Attempt, entry: JournalEntry) -> bool:
    """Return whether the question that approved this call told of this very attempt."""
    record = attempt.record
    told = record.get("cut_off")
    is_told = told is not None and told["started"] == entry.started != ""
    return is_told and record["by"] == "approval" and attempt.is_approved


def _recovery(attempt: Attempt, entry: JournalEntry) -> str | ToolMessage:
    """Return why it may run again unasked, or what its tool found; empty where a person decides."""
    recovery = attempt.spec.recovery
    why = "It ran again, as its skill declares it idempotent" if _is_idempotent(attempt) else ""
    if recovery == "retry":
        why = "It ran again, which repeats nothing"
    elif recovery != "ask" and not entry.key:  # The journal has lost it.
        return ""
    elif recovery == "by key":
        why = "It ran again, and who does its work knows it by its key"
    elif callable(recovery):
        try:
            found = recovery(attempt.judged.args, entry.key)
        except Exception as error:
            logger.warning("a tool cannot say what it did", extra={"tool": attempt.name}, exc_info=error)
            return ""
        if found is not None:
            begun = f"[{entry.beginning}. It did its work, as was found afterwards:]"
            text, call_id = f"{begun}\n{cut(found, _LONGEST_FINDING)}", attempt.id
            return ToolMessage(text, tool_call_id=call_id, name=attempt.name, id=f"found-{call_id}")
        why = "It ran again, as it had not done its work"
    return why if attempt.is_approved else ""


def _is_idempotent(attempt: Attempt) -> bool:
    skill = attempt.judge.skill_of(attempt.judged)
    if skill is None or attempt.spec.counts_as != "script":
        return False
    metadata = attempt.judge.registry.load(skill).metadata.metadata
    return attempt.judged.path in metadata.get("idempotent", "").split()
