"""recalled: an effect that the journal has is not begun again; its result is taken."""

from dataclasses import replace
from typing import Any, Final

from skills_agent.nodes.effects import Invocation, JournalEntry, tool_messages
from skills_agent.nodes.links.attempt import Attempt, Rest, with_note
from skills_agent.nodes.two_paths import Steps
from skills_agent.skills.errors import SkillsAgentError
from skills_agent.state.transcript import alike_calls

_STILL_RUNS: Final = (
    "Not run: an earlier call of it that was given up still runs, and it is not started beside itself. "
    "Go on without it, or call it when that one has returned."
)

_RUNS: Final = (
    "{} still runs: its run was cancelled, and it has not returned yet. It is not started a second time "
    "beside itself. Go on when it has returned; its result is kept."
)


def recalled(attempt: Attempt, rest: Rest) -> Steps[Any]:
    """Take what the journal has of the effect: a result in its place, or that its outcome is unknown.

    Raises SkillsAgentError where the call itself still runs, in a run that was cancelled.
    """
    invocation, running = attempt.invocation, attempt.at.running
    if invocation is None:
        return (yield from rest(attempt))
    is_told = False
    with invocation.lock:
        # Before the look-up: what returns in between is done there, or counts as running here.
        effects = running.effects
        announced = attempt.record.get("announced", False)
        earlier = alike_calls(attempt.state["messages"], attempt.call)
        digest = attempt.request["approved"]
        entry = invocation.find_entry(
            attempt.id, attempt.name, digest, earlier, running.alive, is_announced=announced
        )
        if entry is None and running.has_left(invocation.thread, digest):
            raise attempt.refused(_STILL_RUNS)
        if entry and entry.is_unknown and entry.attempt_key in effects:
            if entry.call_id == attempt.id:
                raise SkillsAgentError(_RUNS.format(attempt.name), code="call-runs")
            raise attempt.refused(_STILL_RUNS)
        if entry and entry.status != "paused":
            # What a turn has ended with runs again only where somebody went back to an earlier step.
            is_told = entry.call_id != attempt.id or entry.settled
            entry = _claimed(entry, attempt, invocation)
    attempt.entry = entry
    if entry is None or entry.status != "done":
        return (yield from rest(attempt))
    produced = invocation.produced(entry)
    if is_told:
        note = f"[This call ran before, at {entry.clock}. It was not run again; its result was:]"
        produced = with_note(produced, note)
    for message in tool_messages(produced):  # For the audit: this call itself did nothing.
        message.additional_kwargs = {"skills_agent": {"reused": entry.started}}
    return produced


def _claimed(entry: JournalEntry, attempt: Attempt, invocation: Invocation) -> JournalEntry:
    """Give an entry to this call and, if it is done, to this invocation: a later call is another one."""
    claimed, is_other = replace(entry, call_id=attempt.id), entry.call_id != attempt.id
    if entry.status == "lost":
        claimed = replace(claimed, tool=attempt.name, digest=attempt.request["approved"])
        attempt.at.observer.doubted(attempt.call, claimed.description)
    if entry.status == "done":
        produced = invocation.produced(entry)
        for message in tool_messages(produced) if is_other else ():
            message.tool_call_id = attempt.id
        claimed = attempt.ended(claimed, invocation, produced)
    # A damaged entry without a digest may be that of another effect, too: it stays.
    invocation.journal.put(claimed, replacing=entry.call_id if is_other and entry.digest else None)
    return claimed
