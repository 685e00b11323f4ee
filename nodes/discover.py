"""discover: what skills there are, once per turn."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from langchain_core.messages import AnyMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from skills_agent.nodes.effects import tool_messages
from skills_agent.nodes.interrupts import answer_unknown
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.model_call import ModelRequests
from skills_agent.nodes.policy import Policy
from skills_agent.skills.errors import SkillError, SkillUnreadableError
from skills_agent.skills.library.callers import Library
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillRef
from skills_agent.state.context import Context, caller_of
from skills_agent.state.records import (
    CatalogRecord,
    ChangedSkill,
    DiagnosticRecord,
    LoadedSkill,
    VerdictRecord,
    active_skills,
)
from skills_agent.state.reducers import spent
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import open_calls, repair, unload_command
from skills_agent.state.turn_end import next_turn

logger = logging.getLogger(__name__)

_NO_CATALOG = CatalogRecord(digest="", total=0, shown=0, sources=[], diagnostics=[])

SUPERSEDED = "Not run: superseded by a new message before it was approved or finished."
NOT_ANSWERED = (
    "Not run: superseded by a new message. A person was asked whether it may run, and sent that instead "
    "of an answer."
)
NOT_ENDED = (
    "Not finished: superseded by a new message. It had begun, or asked a person something, and the message "
    "came instead of an answer. Check what it has done so far."
)


def discover(
    state: AgentState,
    runtime: Runtime[Context],
    *,
    library: Library,
    requests: ModelRequests,
    running: Invocations,
    policy: Policy,
) -> AgentUpdate:
    """Begin a turn: answer the calls that an interrupted turn left open, and discover the skills."""
    context = Context.of(runtime.context)
    turn = next_turn(state)
    # What the last turn left is cleared.
    update = AgentUpdate(usage=spent(turn), admissions=[], verdicts={}, spent_budget="", answer="")
    if state.get("structured_response") is not None:
        update["structured_response"] = None
    messages, update["held"] = state.get("messages", []), _held(state, running, policy)
    if repaired := repair(messages, SUPERSEDED):
        verdicts = state.get("verdicts") or {}
        messages = [true_answer(message, running, verdicts, _forks(state)) for message in repaired]
        update["messages"] = [cast("AnyMessage", RemoveMessage(id=REMOVE_ALL_MESSAGES)), *messages]
    if (scope := context.scope).path and turn == 1:
        update["grants"], update["skills_loaded"] = {**scope.grants}, {**scope.ledger}
        update["skill_resources"] = {**scope.resources}
    before = state.get("catalog") or None
    record, unloading = _NO_CATALOG, None
    if context.enable_skills:
        skills = library.of(caller_of(runtime), runtime.store, look=True)
        catalog = skills.refresh()
        record = _catalog_record(state, catalog, skills, requests)
        unloading = unload_command(messages, catalog)
    if record != before:
        update["catalog"] = record
    now: AgentState = {**state, "messages": messages, "catalog": record}
    if unloading:  # That comes before a summary, which may not be needed then.
        ledger = state.get("skills_loaded") or {}
        now["skills_loaded"] = {name: ledger[name] for name in ledger if name != unloading["name"]}
    is_answered = unloading is not None and unloading.end() == len(unloading.string.rstrip())  # By no model.
    window = requests.models.window(context, now.get("skills_loaded"))
    too_long = not is_answered and bool(requests.turns_to_cover(now, window))
    if too_long != state.get("history_too_long", False):
        update["history_too_long"] = too_long
    return update


def _held(state: AgentState, running: Invocations, policy: Policy) -> list[dict[str, str]]:
    """Return the calls whose changes wait for a person: as before, and those that the new message left."""
    held = [each for each in state.get("held") or () if policy.held(each["key"])]
    if invocation := running.current():
        for call in open_calls(state.get("messages") or []):
            entry = invocation.journal.get(invocation.thread, call["id"] or "")
            if entry and entry.key and entry.status != "done" and (run := policy.held(entry.key)):
                about = {"call_id": entry.call_id, "tool": entry.tool, "changed": run.waits}
                held.append({**about, "key": entry.key})
    return held


def _forks(state: AgentState) -> frozenset[str]:
    """Return the ids of the calls that forks answer: what they did is in their journals."""
    skills = (each["call_id"] for each in state.get("admissions") or () if "fork" in each)
    tasks = (call_id for call_id, each in (state.get("verdicts") or {}).items() if each.get("fork"))
    return frozenset((*skills, *tasks))


def true_answer(
    message: AnyMessage,
    running: Invocations,
    verdicts: Mapping[str, VerdictRecord],
    forks: Collection[str] = (),
) -> AnyMessage:
    """Return what is known of a superseded call; a person may have had to say whether it may run."""
    if isinstance(message, ToolMessage) and message.text == SUPERSEDED and message.tool_call_id in forks:
        return message.model_copy(update={"content": NOT_ENDED})
    invocation, effects = running.current(), running.effects
    if invocation is None or not isinstance(message, ToolMessage) or message.text != SUPERSEDED:
        return message
    call_id, verdict = message.tool_call_id, verdicts.get(message.tool_call_id)
    digest, is_announced = (verdict.get("digest", ""), "announced" in verdict) if verdict else ("", False)
    entry = invocation.known(call_id, message.name or "a call", digest, is_announced=is_announced)
    if entry is None:
        is_asked = verdict is not None and verdict["decision"] == "ask"
        return message.model_copy(update={"content": NOT_ANSWERED}) if is_asked else message
    if entry.status == "paused":
        return message.model_copy(update={"content": NOT_ENDED})
    if entry.status == "lost":  # It is asked about when it is wanted again.
        invocation.journal.put(entry)
    if entry.is_unknown:
        if entry.attempt_key in effects:  # It is given up: that it returns later changes nothing any more.
            invocation.journal.put(replace(entry, run=""))
        entry = replace(entry, tool=message.name or entry.tool)
        return answer_unknown(message.tool_call_id, entry, "Then a new message came.")
    invocation.journal.put(replace(entry, settled=True))
    results = [
        result for result in tool_messages(invocation.produced(entry)) if result.tool_call_id == call_id
    ]
    return results[0].model_copy(update={"id": f"done-{call_id}"}) if results else message


def _catalog_record(
    state: AgentState, catalog: Catalog, registry: Registry, requests: ModelRequests
) -> CatalogRecord:
    before: Mapping[str, Any] = state.get("catalog") or {}
    loaded = active_skills(state.get("skills_loaded"))
    shown = requests.shown_catalog(catalog, frozenset())
    # Unchanged files cost one `stat` each.
    changed = [change for name in sorted(loaded) if (change := _change(loaded[name], registry))]
    for change in changed:
        extra = {"skill": change["name"], "change": change["change"]}
        logger.warning("loaded skill differs on disk", extra=extra)
    diagnostics = [
        DiagnosticRecord(code=fault.code, severity=fault.severity, message=fault.message, path=fault.path)
        for fault in catalog.diagnostics
    ]
    record = CatalogRecord(
        digest=catalog.digest,
        total=len(catalog.skills),
        shown=len(shown.listing.lines),
        sources=list(catalog.sources),
        changed=changed,
        diagnostics=diagnostics,
        size=len(shown.text),
    )
    # Skills that no model may load are never listed, whatever the budget.
    if record != before and shown.listing.omitted:
        figures = {"omitted": shown.listing.omitted, "budget": requests.catalog_budget}
        logger.warning("description budget exceeded", extra=figures)
    return record


def _change(skill: LoadedSkill, registry: Registry) -> ChangedSkill | None:
    name = skill["name"]
    try:
        now = registry.digest(SkillRef.of(skill))
    except SkillError as error:
        change: Literal["gone", "broken"] = "gone" if isinstance(error, SkillUnreadableError) else "broken"
        return ChangedSkill(name=name, change=change, digest="")
    return None if now == skill["digest"] else ChangedSkill(name=name, change="changed", digest=now)
