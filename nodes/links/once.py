"""once: an effect is in the journal before it begins, and with its result after it."""

import logging
from dataclasses import replace
from typing import Any

from langgraph.errors import GraphBubbleUp

from skills_agent.nodes.effects import Invocation, JournalEntry
from skills_agent.nodes.links.attempt import Attempt, Rest
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.policy.verdict import AnswerRefusedError

logger = logging.getLogger(__name__)


def once(attempt: Attempt, rest: Rest) -> Steps[Any]:
    """Begin the call, and note what came of it. Raises CancelledError and LostLockError."""
    at, invocation = attempt.at, attempt.invocation
    at.running.cancellation().refuse_start()
    if invocation is None:
        if attempt.spec.risk != "read":
            at.observer.starts(attempt.request, is_lasting=False)
        return (yield from rest(attempt))
    invocation.check_lock()
    # First: where the record must be kept and cannot be, the journal has no attempt.
    at.observer.starts(attempt.request, is_lasting=invocation.is_lasting)
    attempt.entry = entry = _started(attempt, invocation)
    invocation.journal.put(entry)
    invocation.announced.discard(attempt.id)
    with at.running.effect(entry):
        try:
            produced = yield from rest(attempt)
        # The tool itself asks a person: it runs again from its first line.
        except (GraphBubbleUp, AnswerRefusedError):
            invocation.journal.put(replace(entry.done(attempt.notes), status="paused"))
            raise
        if _is_awaited(attempt, entry, invocation):
            invocation.journal.put(entry.done(produced))
    return produced


def _started(attempt: Attempt, invocation: Invocation) -> JournalEntry:
    entry = attempt.entry
    if entry is None:
        digest = attempt.request["approved"]
        entry = JournalEntry.of(attempt.id, attempt.name, digest, invocation, attempt.checkpoint)
    elif entry.status == "paused":
        attempt.is_resumed = True
        attempt.notes += invocation.produced(entry) or []
        attempt.at.skip_answers(entry.answers)
        entry = entry.again(invocation, attempt.checkpoint)
    return replace(entry, key=entry.key or attempt.new_key())


def _is_awaited(attempt: Attempt, entry: JournalEntry, invocation: Invocation) -> bool:
    """Return whether nobody has decided about the effect while it ran on after its run was cancelled."""
    is_cancelled = attempt.at.running.cancellation().is_requested
    if not is_cancelled or invocation.journal.get(invocation.thread, attempt.id) == entry:
        return True
    logger.warning("a call returned after it was given up", extra={"tool": attempt.name})
    return False
