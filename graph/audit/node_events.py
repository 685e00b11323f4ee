"""The events that a node's step stands for: pure functions of what the node read and what it changed.

The recorder makes events of a step while it runs; `threads show --steps` makes them of a stored checkpoint.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.types import Command
from msgspec import UNSET, UnsetType

from skills_agent.graph.audit.events import Record, event
from skills_agent.nodes.effects import JournalEntry, Witness
from skills_agent.nodes.interrupts import UNKNOWN
from skills_agent.skills.policy.tool_spec import TOOL_SPECS
from skills_agent.skills.text import one_line
from skills_agent.state.call_ids import all_calls
from skills_agent.state.endings import fault_of
from skills_agent.state.records import active_skills
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import AgentState, CallRequest
from skills_agent.state.transcript import (
    LOAD_SKILL,
    SEARCH_SKILLS,
    is_synthetic,
    last_ai,
    last_human,
    outcome_of,
    reused_since,
)
from skills_agent.state.turn_end import next_turn

State = Mapping[str, Any]


NOBODY: Final = {"caller": None, "verified": False, "model": ""}


class NodeStep(NamedTuple):
    """One run of a node."""

    before: State
    """The state that it read, or what a branch was sent: an Admission, a CallRequest."""
    update: State
    """What it changed."""
    seconds: float | UnsetType = UNSET
    invocation: Callable[[], State] = lambda: NOBODY
    """Returns who calls the graph, and what the operator had set."""

    @property
    def answers(self) -> list[ToolMessage]:
        """Return the tool messages that the node added."""
        return [message for message in self.update.get("messages") or [] if isinstance(message, ToolMessage)]

    @property
    def spent(self) -> dict[str, Any]:
        """Return the tokens that the node spent, those of the cache where there are any, and its seconds."""
        counts = (self.update.get("usage") or {}).get("this_turn", {})
        tokens = {name: counts.get(name, 0) for name in ("input_tokens", "output_tokens")}
        cached = {name: counts.get(name) or UNSET for name in ("cache_read_tokens", "cache_creation_tokens")}
        return {**tokens, **cached, "seconds": self.seconds}


_FOUND: Final = re.compile(r"(?m)^- (\S+?)(?: \(loaded\))?: ")
"""The lines of a search's result."""


def events_of(node: str, step: NodeStep) -> list[Record]:
    """Return the events of a node's step, in the order in which a person reads them."""
    return list(_EVENTS.get(node, _step_ended)(step))


def merge_updates(change: Any) -> dict[str, Any]:
    """Return what a node changed as one update: nodes give a dict, Commands, or a list of them."""
    merged: dict[str, Any] = {}
    for part in change if isinstance(change, list) else [change]:
        update = part.update if isinstance(part, Command) else part
        if isinstance(update, Mapping):
            messages = [*merged.get("messages", []), *(update.get("messages") or [])]
            merged |= {**update, "messages": messages}
    return merged


def turn_of(node: str, before: State) -> int:
    """Return the number of the turn that a step belongs to; 0 where an older thread does not say it."""
    if "turn" in before:
        return int(before["turn"])
    if node == "discover":
        return next_turn(cast("AgentState", before))
    return int((before.get("usage") or {}).get("turn", 0))


def witness_of(records: Iterable[Mapping[str, Any]], is_whole: bool) -> Witness:
    """Return what records say of the calls that began; `is_whole` where none of them is missing."""
    started: dict[str, JournalEntry] = {}
    ended, mentioned = set[str](), set[str]()
    for record in records:
        kind, call_id = record.get("type"), str(record.get("call_id") or "")
        match kind:
            case "call_started" if digest := record.get("digest"):
                started[call_id] = JournalEntry.lost("", call_id, str(digest), str(record.get("tool")))
                ended.discard(call_id)
            case "call_ended" if call_id in started:
                ended.add(call_id)
            case "events_lost":
                is_whole = False
        mentioned.add(call_id)
    return Witness(started, ended, mentioned if is_whole else ())


def questions_asked(node: str, before: State, interrupt: GraphInterrupt) -> list[Record]:
    """Return what a person is asked: by `approve`, by `act` itself, or by a host's tool in any shape."""
    if node != "act":
        return [
            event("approval_asked", verdict, call_id=call_id, question=verdict["reason"])
            for call_id, verdict in (before.get("verdicts") or {}).items()
            if verdict["decision"] == "ask"
        ]
    call = call_record(cast("CallRequest", before))
    questions: list[Record] = []
    for each in interrupt.args[0]:
        actions = each.value.get("action_requests") if isinstance(each.value, Mapping) else None
        # A description ends with the question; before it stands what the event has in its fields.
        question = str(actions[0]["description"]).rpartition("\n\n")[2] if actions else str(each.value)
        question = actions[0].get(UNKNOWN, {}).get("text", question) if actions else question
        questions.append(event("approval_asked", call, question=question))
    return questions


def state_updated(values: Any, as_node: str | None) -> list[Record]:
    """Return the events of a change that somebody made to a thread from outside of the graph."""
    if not isinstance(values, Mapping):
        return []
    grants: Mapping[str, State] = values.get("grants") or {}
    revoked = {call_id: grant for call_id, grant in grants.items() if grant.get("revoked")}
    updates: list[Record] = [
        event("grant_revoked", {"scope": "", "pattern": "", **grant}, call_id=call_id)
        for call_id, grant in revoked.items()
    ]
    if channels := sorted(set(values) - ({"grants"} if len(revoked) == len(grants) else set())):
        given, skills = sorted(set(grants) - set(revoked)), sorted(values.get("skills_loaded") or {})
        updates.append(
            event("state_updated", as_node=as_node or "", channels=channels, grants=given, skills=skills)
        )
    return updates


def _discovered(step: NodeStep) -> Iterator[Record]:
    before = step.before
    human = last_human(before.get("messages") or [])
    catalog = step.update.get("catalog") or before.get("catalog") or {}
    changed = catalog.get("changed", [])
    yield event(
        "run_started",
        step.invocation(),
        request=str(human.text) if human else "",
        skills=list(before.get("skills") or []),
        catalog=catalog.get("digest", ""),
        known=catalog.get("total", 0),
        changed=[each["name"] for each in changed],
        sources=len(catalog.get("sources", ())),
        problems=sum(diagnostic["severity"] != "info" for diagnostic in catalog.get("diagnostics", ())),
    )
    for each in changed:
        yield event("skill_changed", each, skill=each["name"])
    if answers := step.answers:
        known = {message.id for message in before.get("messages") or []}
        yield from (event("call_dropped", **_dropped(answer)) for answer in answers if answer.id not in known)


def _selected(step: NodeStep) -> Iterator[Record]:
    message = last_ai([*(step.before.get("messages") or []), *(step.update.get("messages") or [])])
    said = one_line(str(message.text)) if message else ""
    calls = {call["id"]: {**call["args"], "reason": said} for call in message.tool_calls} if message else {}
    for answer in step.answers:
        if answer.name == LOAD_SKILL:
            yield _skill_refused(answer, calls.get(answer.tool_call_id, {}))
    receipt = next((each.tool_call_id for each in step.answers if each.name != LOAD_SKILL), "")
    for name, skill in (step.update.get("skills_loaded") or {}).items():
        yield event("skill_unloaded", skill, call_id=receipt, skill=name)


def _loaded(step: NodeStep) -> Iterator[Record]:
    changed = step.update.get("skills_loaded") or {}
    ledger = active_skills(changed)
    resources = step.update.get("skill_resources") or {}
    lines = [line for answer in step.answers for line in str(answer.text).splitlines()[len(ledger) :]]
    notes = {"note": " ".join(lines)} if lines else {}
    for name, skill in ledger.items():
        files = resources.get(name) or {}
        listed = len(files.get("files", ())) + files.get("omitted", 0)
        size = len(skill["instructions"])
        yield event("skill_loaded", skill, skill=name, resources=listed, characters=size, **notes)
        notes = {}
    receipt = next((answer.tool_call_id for answer in step.answers), "")
    for name, skill in changed.items():
        if skill["unloaded"]:
            yield event("skill_unloaded", skill, call_id=receipt, skill=name)
    for grant in (step.update.get("grants") or {}).values():  # of hooks
        yield event("approval_answered", grant, call_id=grant["id"], answer=grant["decision"], by="approval")
    if not ledger:
        for answer in step.answers:
            yield _skill_refused(answer, {**step.before, **step.before["skills"][-1]})


def _skill_refused(answer: ToolMessage, request: State) -> Record:
    skill, reason = str(request.get("name") or ""), str(request.get("reason") or "")
    return event(
        "skill_refused", call_id=answer.tool_call_id, skill=skill, reason=reason, refusal=str(answer.text)
    )


def _model_called(step: NodeStep) -> Iterator[Record]:
    """Tell each reply of a model, not what the agent says itself; the last has the tokens of the step."""
    messages: list[AnyMessage] = step.update.get("messages") or []
    replies = [each for each in messages if isinstance(each, AIMessage) and not is_synthetic(each)]
    for message in replies:
        name = message.response_metadata.get("model_name") or step.invocation()["model"]
        calls = [call["name"] or "" for call in all_calls(message)]
        fault = fault_of(message) or UNSET
        spent: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0}
        if message is replies[-1]:
            spent = step.spent
        yield event("model_called", model=str(name), calls=calls, fault=fault, **spent)


def _summarized(step: NodeStep) -> Iterator[Record]:
    if summary := step.update.get("summary"):
        yield event("history_summarized", {**summary, **step.spent})


def _judged(step: NodeStep) -> Iterator[Record]:
    verdicts = step.update.get("verdicts") or {}
    for call_id, verdict in verdicts.items():
        yield event("call_judged", verdict, call_id=call_id)
    for answer in step.answers:
        if answer.tool_call_id not in verdicts:  # arguments that are no JSON
            yield event("call_judged", _dropped(answer), args={}, decision="deny", by="error")


def _answered(step: NodeStep) -> Iterator[Record]:
    for call_id, grant in (step.update.get("grants") or {}).items():
        verdict = {**step.update["verdicts"][call_id], "tool": grant["tool"], "args": grant["args"]}
        yield event("approval_answered", {**grant, **verdict}, call_id=call_id, answer=grant["decision"])


def _acted(step: NodeStep) -> Iterator[Record]:
    call = call_record(cast("CallRequest", step.before))
    answer = next((each for each in step.answers if each.tool_call_id == call["call_id"]), None)
    text = str(answer.text) if answer else ""
    failed = answer is not None and answer.status == "error"
    outcome = outcome_of(answer) if answer else {}
    has_run = bool(outcome)
    yield event(
        "call_ended",
        {**outcome, **call},
        status="ok" if not failed else "failed" if has_run else "error",
        bytes=len(text.encode(errors="replace")),
        seconds=step.seconds,
        error=text if failed and not has_run else "",
        reused=(reused_since(answer) if answer else "") or UNSET,
        found=_FOUND.findall(text) if call["tool"] == SEARCH_SKILLS and not failed else UNSET,
    )
    spec = TOOL_SPECS.get(call["tool"])
    if spec and spec.counts_as == "resource" and not failed:
        yield event("resource_read", call, path=str(call["args"].get("path") or ""))
    for name, skill in (step.update.get("skills_loaded") or {}).items():
        if skill["unloaded"]:
            yield event("skill_unloaded", skill, call_id=call["call_id"], skill=name)


def _finished(step: NodeStep) -> Iterator[Record]:
    said = last_ai(step.update.get("messages") or [])
    own = {call["id"] for call in said.tool_calls} if said else set()  # of the host's form of answers
    dropped = [answer for answer in step.answers if answer.tool_call_id not in own]
    yield from (event("call_dropped", **_dropped(each)) for each in dropped)
    yield from _model_called(step)
    if not any(isinstance(message, AIMessage) for message in step.update.get("messages") or []):
        fault = fault_of(last_ai(step.before.get("messages") or []))
        yield _run_ended(step, "incomplete" if fault else "done", fault)
        return
    reason = str(dropped[0].text) if dropped else "the same call was refused again and again"
    yield _run_ended(step, "cut short", reason)


def _run_ended(step: NodeStep, outcome: str, reason: str) -> Record:
    usage = add_usage(step.before.get("usage"), step.update.get("usage"))
    return event(
        "run_ended",
        outcome=outcome,
        reason=reason,
        answer_bytes=len(str(step.update.get("answer") or "").encode(errors="replace")),
        loaded=list(step.update.get("loaded", step.before.get("loaded")) or []),
        usage=dict(usage["this_turn"]),
    )


def _step_ended(step: NodeStep) -> Iterator[Record]:
    channels = sorted(name for name, value in step.update.items() if value or name != "messages")
    yield event("step_ended", channels=channels)


def _dropped(answer: ToolMessage) -> dict[str, Any]:
    return {"call_id": answer.tool_call_id, "tool": answer.name or "", "reason": str(answer.text)}


def call_record(request: CallRequest) -> dict[str, Any]:
    """Return what events say of a call."""
    call = request["call"]
    skill = call["args"].get("skill")
    return {
        "call_id": call["id"] or "",
        "tool": call["name"],
        "args": call["args"],
        "skill": skill if isinstance(skill, str) else "",
        "digest": request.get("approved", ""),
    }


_EVENTS: Final[Mapping[str, Callable[[NodeStep], Iterator[Record]]]] = {
    "discover": _discovered,
    "summarize": _summarized,
    "select": _selected,
    "load": _loaded,
    "decide": _model_called,
    "gate": _judged,
    "approve": _answered,
    "act": _acted,
    "answer": _finished,
}
"""A node that is not here has the event `step_ended`."""
