"""What each node's step means for the audit: pure functions of its input and its output."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.types import Command

from skills_agent.graph.audit.records import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDropped,
    CallEnded,
    CallJudged,
    CallStarted,
    Event,
    GrantRevoked,
    HistorySummarized,
    ModelCalled,
    Operator,
    ResourceRead,
    RunEnded,
    RunResumed,
    RunStarted,
    SkillLoaded,
    SkillRefused,
    SkillUnloaded,
    StateUpdated,
)
from skills_agent.state.records import Counts, LoadedSkill, VerdictRecord
from skills_agent.state.reducers import add_usage
from skills_agent.state.schema import CallRequest
from skills_agent.state.transcript import last_ai, last_human, reused_since

State = Mapping[str, Any]

_OF_A_RUN = ("exit_code", "level", "stopped", "stdout_bytes", "stderr_bytes", "written", "written_more")


class Asked(NamedTuple):
    """Who asks, and under which of the operator's settings."""

    caller: str | None
    verified: bool
    operator: Operator


class Step(NamedTuple):
    """One run of a node."""

    before: State
    """The state, or what a branch was sent: an Admission, a CallRequest."""
    update: State
    """What it changed; empty before it ran."""
    seconds: float
    asking: Callable[[], Asked]
    """Asked only by the events that tell it."""


def events_of(node: str, step: Step) -> list[Event]:
    """Return what a node's step means, in the order in which a person reads it."""
    return list(_EVENTS[node](step))


def merged(change: Any) -> dict[str, Any]:
    """Return what a node changed as one update: nodes give a dict, Commands, or a list of them."""
    together: dict[str, Any] = {}
    for part in change if isinstance(change, list) else [change]:
        update = part.update if isinstance(part, Command) else part
        if isinstance(update, Mapping):
            messages = [*together.get("messages", []), *(update.get("messages") or [])]
            together |= {**update, "messages": messages}
    return together


def turn_of(node: str, before: State, update: State) -> int:
    """Return the number of the turn that a step belongs to; 0 where an older thread does not say it."""
    if node == "discover":
        return int(update["usage"]["turn"])
    if "turn" in before:
        return int(before["turn"])
    return int((before.get("usage") or {}).get("turn", 0))


def run_resumed(asked: Asked) -> RunResumed:
    """Tell that a run goes on in another call of the graph."""
    return RunResumed(type="run_resumed", caller=asked.caller, verified=asked.verified, **asked.operator)


def call_started(request: CallRequest) -> CallStarted:
    """Tell that a call is about to run: what a kill leaves behind of it."""
    call = request["call"]
    return CallStarted(
        type="call_started", call_id=call["id"] or "", tool=call["name"], skill=_skill_of(call["args"])
    )


def outcome_asked(request: CallRequest, question: str) -> ApprovalAsked:
    """Tell that a person is asked whether to run a call again whose outcome is unknown."""
    call = request["call"]
    return ApprovalAsked(
        type="approval_asked",
        call_id=call["id"] or "",
        tool=call["name"],
        args=call["args"],
        question=question,
        digest=request["approved"],
    )


def outcome_answered(
    request: CallRequest, question: str, asked: Asked, *, again: bool, message: str
) -> ApprovalAnswered:
    """Tell what a person said about a call whose outcome is unknown."""
    call = request["call"]
    return ApprovalAnswered(
        type="approval_answered",
        call_id=call["id"] or "",
        tool=call["name"],
        args=call["args"],
        answer="approve" if again else "reject",
        scope="call",
        pattern="",
        message=message,
        user=asked.caller,
        decision="allow" if again else "deny",
        # With the attempt: the same answer about the next one is another event.
        reason=f"{'run again' if again else 'not run again'}: {question}",
        by="approval",
        digest=request["approved"],
    )


def updated(values: Any, as_node: str | None) -> list[Event]:
    """Tell what somebody changed in a thread from outside of the graph."""
    if not isinstance(values, Mapping):
        return []
    grants: Mapping[str, State] = values.get("grants") or {}
    revoked = {call_id: grant for call_id, grant in grants.items() if grant.get("revoked")}
    told: list[Event] = [
        GrantRevoked(
            type="grant_revoked",
            call_id=call_id,
            tool=grant.get("tool", ""),
            scope=grant.get("scope", ""),
            pattern=grant.get("pattern", ""),
        )
        for call_id, grant in revoked.items()
    ]
    if others := sorted(set(values) - ({"grants"} if len(revoked) == len(grants) else set())):
        told.append(
            StateUpdated(
                type="state_updated",
                as_node=as_node or "",
                channels=others,
                grants=sorted(set(grants) - set(revoked)),
                skills=sorted(values.get("skills_loaded") or {}),
            )
        )
    return told


def approvals_asked(state: State) -> list[Event]:
    """Tell what a person is asked about."""
    return [
        ApprovalAsked(
            type="approval_asked",
            call_id=call_id,
            tool=verdict["tool"],
            args=verdict["args"],
            question=verdict["reason"],
            digest=verdict.get("digest", ""),
        )
        for call_id, verdict in _verdicts(state).items()
        if verdict["decision"] == "ask"
    ]


def _discovered(step: Step) -> Iterator[Event]:
    before, asked = step.before, step.asking()
    human = last_human(before.get("messages") or [])
    catalog = step.update.get("catalog") or before.get("catalog") or {}
    yield RunStarted(
        type="run_started",
        caller=asked.caller,
        verified=asked.verified,
        request=str(human.text) if human else "",
        skills=list(before.get("skills") or []),
        catalog=catalog.get("digest", ""),
        known=catalog.get("total", 0),
        changed=[each["name"] for each in catalog.get("changed", [])],
        **asked.operator,
    )
    known = {message.id for message in before.get("messages") or []}
    yield from _dropped([each for each in _answers(step.update) if each.id not in known])


def _selected(step: Step) -> Iterator[Event]:
    message = last_ai([*(step.before.get("messages") or []), *(step.update.get("messages") or [])])
    calls = {call["id"]: call["args"] for call in message.tool_calls} if message else {}
    for answer in _answers(step.update):
        args = calls.get(answer.tool_call_id, {})
        yield SkillRefused(
            type="skill_refused",
            call_id=answer.tool_call_id,
            skill=str(args.get("name") or ""),
            reason=str(args.get("reason") or ""),
            refusal=str(answer.text),
        )


def _loaded(step: Step) -> Iterator[Event]:
    ledger: Mapping[str, LoadedSkill] = step.update.get("skills_loaded") or {}
    resources = step.update.get("skill_resources") or {}
    for name, skill in ledger.items():
        files = resources.get(name) or {}
        yield SkillLoaded(
            type="skill_loaded",
            call_id=skill["call_id"],
            skill=name,
            source=skill["source"],
            path=skill["path"],
            digest=skill["digest"],
            asked_by=skill["asked_by"],
            reason=skill["reason"],
            resources=len(files.get("files", ())) + files.get("omitted", 0),
        )
    if not ledger:
        for answer in _answers(step.update):
            yield SkillRefused(
                type="skill_refused",
                call_id=answer.tool_call_id,
                skill=str(step.before["skills"][-1]["name"]),
                reason=str(step.before.get("reason") or ""),
                refusal=str(answer.text),
            )


def _decided(step: Step) -> Iterator[Event]:
    spent = (step.update.get("usage") or {}).get("this_turn", {})
    for message in step.update.get("messages") or []:
        if isinstance(message, AIMessage):
            yield ModelCalled(
                type="model_called",
                model=str(message.response_metadata.get("model_name") or step.asking().operator["model"]),
                input_tokens=spent.get("input_tokens", 0),
                output_tokens=spent.get("output_tokens", 0),
                seconds=step.seconds,
                calls=[call["name"] or "" for call in [*message.tool_calls, *message.invalid_tool_calls]],
            )


def _summarized(step: Step) -> Iterator[Event]:
    if summary := step.update.get("summary"):
        spent = (step.update.get("usage") or {}).get("this_turn", {})
        yield HistorySummarized(
            type="history_summarized",
            by=summary["by"],
            failure=summary["failure"],
            turns=summary["turns"],
            input_tokens=spent.get("input_tokens", 0),
            output_tokens=spent.get("output_tokens", 0),
            seconds=step.seconds,
        )


def _judged(step: Step) -> Iterator[Event]:
    verdicts = _verdicts(step.update)
    for call_id, verdict in verdicts.items():
        yield CallJudged(
            type="call_judged",
            call_id=call_id,
            tool=verdict["tool"],
            args=verdict["args"],
            decision=verdict["decision"],
            reason=verdict["reason"],
            by=verdict["by"],
            grant=verdict.get("grant", ""),
            digest=verdict.get("digest", ""),
        )
    for answer in _answers(step.update):
        if answer.tool_call_id not in verdicts:  # arguments that are no JSON
            yield CallJudged(
                type="call_judged",
                call_id=answer.tool_call_id,
                tool=answer.name or "",
                args={},
                decision="deny",
                reason=str(answer.text),
                by="error",
                grant="",
                digest="",
            )


def _answered(step: Step) -> Iterator[Event]:
    verdicts = _verdicts(step.update)
    for call_id, grant in (step.update.get("grants") or {}).items():
        verdict = verdicts[call_id]
        yield ApprovalAnswered(
            type="approval_answered",
            call_id=call_id,
            tool=grant["tool"],
            args=grant["args"],
            answer=grant["decision"],
            scope=grant["scope"],
            pattern=grant.get("pattern", ""),
            message=grant["message"],
            user=grant.get("user"),
            decision=verdict["decision"],
            reason=verdict["reason"],
            by=verdict["by"],
            digest=verdict.get("digest", ""),
        )


def _acted(step: Step) -> Iterator[Event]:
    request = cast("CallRequest", step.before)
    call = request["call"]
    answer = next((each for each in _answers(step.update) if each.tool_call_id == call["id"]), None)
    text = str(answer.text) if answer else ""
    failed = answer is not None and answer.status == "error"
    ended = CallEnded(
        type="call_ended",
        call_id=call["id"] or "",
        tool=call["name"],
        skill=_skill_of(call["args"]),
        status="error" if failed else "ok",
        bytes=len(text.encode(errors="replace")),
        seconds=step.seconds,
        error=text if failed else "",
    )
    if answer and (started := reused_since(answer)):
        ended["reused"] = started
    yield _with_outcome(ended, answer.artifact if answer else None)
    if call["name"] == "read_resource" and not failed:
        yield ResourceRead(
            type="resource_read",
            call_id=call["id"] or "",
            skill=_skill_of(call["args"]),
            path=str(call["args"].get("path") or ""),
        )
    for name, skill in (step.update.get("skills_loaded") or {}).items():
        if skill["unloaded"]:
            yield SkillUnloaded(
                type="skill_unloaded", call_id=call["id"] or "", skill=name, digest=skill["digest"]
            )


def _with_outcome(ended: CallEnded, artifact: object) -> CallEnded:
    """Add what a runner said of a script or a command."""
    if not isinstance(artifact, Mapping) or "exit_code" not in artifact:
        return ended
    outcome = {key: artifact[key] for key in _OF_A_RUN if key in artifact}
    if "seconds" in artifact:
        outcome["run_seconds"] = artifact["seconds"]
    return cast("CallEnded", {**ended, **outcome})


def _finished(step: Step) -> Iterator[Event]:
    dropped = _answers(step.update)
    called = [each for each in step.update.get("messages") or [] if isinstance(each, AIMessage)]
    yield from _dropped(dropped)
    yield from _decided(step)
    usage = add_usage(step.before.get("usage"), step.update.get("usage"))
    reason = str(dropped[0].text) if dropped else "the same call was refused again and again"
    yield RunEnded(
        type="run_ended",
        outcome="cut short" if called else "done",
        reason=reason if called else "",
        answer_bytes=len(str(step.update.get("answer") or "").encode(errors="replace")),
        loaded=list(step.update.get("loaded", step.before.get("loaded")) or []),
        usage=Counts(**usage["this_turn"]),
    )


def _dropped(answers: Sequence[ToolMessage]) -> Iterator[Event]:
    for answer in answers:
        yield CallDropped(
            type="call_dropped",
            call_id=answer.tool_call_id,
            tool=answer.name or "",
            reason=str(answer.text),
        )


def _answers(update: State) -> list[ToolMessage]:
    messages: Sequence[AnyMessage] = update.get("messages") or []
    return [message for message in messages if isinstance(message, ToolMessage)]


def _verdicts(state: State) -> Mapping[str, VerdictRecord]:
    return state.get("verdicts") or {}


def _skill_of(args: Mapping[str, Any]) -> str:
    skill = args.get("skill")
    return skill if isinstance(skill, str) else ""


_EVENTS: Mapping[str, Callable[[Step], Iterator[Event]]] = {
    "discover": _discovered,
    "summarize": _summarized,
    "select": _selected,
    "load": _loaded,
    "decide": _decided,
    "gate": _judged,
    "approve": _answered,
    "act": _acted,
    "answer": _finished,
}
