"""act: one tool call."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

from langchain_core.messages.tool import ToolCall
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, interrupt
from pydantic import Field

from skills_agent.nodes.effects import (
    Entry,
    Fate,
    Found,
    Invocation,
    Invocations,
    Wanted,
    as_list,
    find,
    outcome_unknown,
    tool_messages,
    unknown_text,
)
from skills_agent.nodes.judge import Policy, call_digest, changed_text, effect_of
from skills_agent.nodes.questions import ActionRequest, Answer, HITLRequest, Reject, ReviewConfig
from skills_agent.nodes.two_paths import TwoPaths
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.skills.policy.verdict import ApprovalNeededError
from skills_agent.skills.skill import SkillRef
from skills_agent.state.context import Context, caller_of
from skills_agent.state.reducers import spent
from skills_agent.state.schema import AgentUpdate, CallRequest
from skills_agent.state.transcript import refusal

Outputs = list[AgentUpdate | Command[Any]]


class RunAgain(Answer):
    """Run a call again whose outcome is unknown."""

    type: Literal["approve"]


class OutcomeUnknownResponse(Answer):
    """What a person says about a call whose outcome is unknown."""

    decisions: Annotated[
        list[Annotated[RunAgain | Reject, Field(discriminator="type")]], Field(min_length=1, max_length=1)
    ]


class CallObserver(Protocol):
    """Is told of a call before it does anything: that is known then, whatever becomes of the process."""

    def starts(self, request: CallRequest) -> None:
        """Take that a call is about to run."""
        ...

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Take what a person said about a call whose outcome is unknown."""
        ...


def act(*, tools: ToolNode, policy: Policy, running: Invocations, witness: CallObserver) -> TwoPaths:
    """Return the node that runs one allowed call through LangGraph's ToolNode and counts it.

    What was approved or allowed is run, and nothing else: a call whose arguments or whose skill changed
    in between is refused. A call that is not read-only is written to the journal before and after: one
    that was done already is not done again, and one whose outcome is unknown is asked about. A tool that
    fails becomes a tool message of status error. The async path is for host tools that exist only as
    coroutines, as those of MCP servers do.
    """

    def sync_path(request: CallRequest) -> Outputs:
        step = _begin(request, policy, running, witness)
        if isinstance(step, list):
            return step
        try:
            produced = tools.invoke([request["call"]], get_config())
        except GraphBubbleUp:
            step.pause()
            raise
        return step.end(produced)

    async def async_path(request: CallRequest) -> Outputs:
        step = await asyncio.to_thread(_begin, request, policy, running, witness)
        if isinstance(step, list):
            return step
        try:
            produced = await tools.ainvoke([request["call"]], get_config())
        except GraphBubbleUp:
            await asyncio.to_thread(step.pause)
            raise
        return await asyncio.to_thread(step.end, produced)

    return TwoPaths("act", sync_path, async_path)


@dataclass(frozen=True)
class Attempt:
    """One attempt at a call."""

    request: CallRequest
    spec: ToolSpec
    run: Invocation | None = None
    entry: Entry | None = None
    """What the journal says of it; None where the call only reads, or the thread is not kept."""
    note: str = ""
    """What the model is told before the result."""
    answers: int = 0
    """How often a person was asked about it by this node."""

    def end(self, produced: Any) -> Outputs:
        """Return what the call gave; it is in the journal by then."""
        exit_code = _exit_code(produced)
        produced = _noted(produced, self.note)
        if self.run and self.entry:
            self.run.journal.put(self.entry.done(produced, exit_code))
        return _outputs(self.request, self.spec, produced)

    def pause(self) -> None:
        """Say that the tool itself asked a person: it runs again from its first line."""
        if self.run and self.entry:
            self.run.journal.put(replace(self.entry, status="paused", answers=self.answers))


def _begin(
    request: CallRequest, policy: Policy, running: Invocations, witness: CallObserver
) -> Attempt | Outputs:
    """Return the attempt that is in the journal now, or outputs where nothing is to be run."""
    runtime = get_runtime(Context)
    registry = policy.library.of(caller_of(runtime), runtime.store)
    spec = policy.spec(request["call"]["name"])
    only_reads = spec.risk == "read"
    run = None if only_reads else running.now()
    if run is None:
        if not _is_as_approved(request, registry):
            return _refused(request)
        if not only_reads:
            witness.starts(request)
        return Attempt(request, spec)
    return _Desk(request, run, running, policy, registry, runtime, witness).begin()


class _Desk:
    """Decides about one call that is not read-only, in a thread that is kept."""

    def __init__(
        self,
        request: CallRequest,
        run: Invocation,
        running: Invocations,
        policy: Policy,
        registry: Registry,
        runtime: Runtime[Context],
        witness: CallObserver,
    ) -> None:
        self._request = request
        self._witness = witness
        self._call: ToolCall = request["call"]
        self._id = self._call["id"] or ""
        self._spec = policy.spec(self._call["name"])
        self._run = run
        self._running = running
        self._policy = policy
        self._registry = registry
        info = runtime.execution_info
        self._checkpoint = info.checkpoint_id if info else ""
        self._effect = effect_of(self._call, _place(request), registry)
        self._approved = request["approved"] or self._effect.digest

    def begin(self) -> Attempt | Outputs:
        with self._run.lock:
            wanted = Wanted(self._id, self._approved, self._request.get("earlier", ()))
            found = find(wanted, self._run, self._running.is_alive)
            if found.entry and found.fate != "new":
                found = self._claim(found.fate, found.entry, is_lost=found.lost)
            if found.fate == "new":
                return self._first(found.entry)
        assert found.entry is not None  # noqa: S101 - known of both other fates
        if found.fate == "done":
            return _outputs(self._request, self._spec, _reused(found.entry))
        return self._again(found.entry)

    def _claim(self, fate: Fate, known: Entry, *, is_lost: bool) -> Found:
        """Make an entry that of this call and, where it is done, of this run: a later call is another one."""
        entry = replace(known, call_id=self._id)
        if fate == "done":
            produced = _renamed(known.produced, self._id)
            if is_lost:
                note = (
                    f"[This call had already run, started at {known.started}, in a run that was cut off. "
                    "It was not run again; its result was:]"
                )
                entry = entry.done(_noted(produced, note), known.exit_code)
            entry = replace(
                entry, run=self._run.id, checkpoint=self._checkpoint, ended=known.ended, settled=False
            )
        if entry != known:
            self._run.journal.put(entry, replacing=known.call_id if is_lost else None)
        return Found(fate, entry)

    def _first(self, paused: Entry | None) -> Attempt | Outputs:
        """Write the entry of a call that starts, or goes on after its own question."""
        if self._is_changed():
            return _refused(self._request)
        if paused is None:
            entry = Entry.of(self._id, self._effect, self._run, self._checkpoint)
        else:
            self._replay(paused)
            entry = paused.again(self._run, self._checkpoint)
        return self._started(entry, answers=entry.answers)

    def _again(self, entry: Entry) -> Attempt | Outputs:
        """Ask what becomes of a call that was started and whose outcome nobody knows."""
        if self._is_changed():
            return self._closed(entry, "It is not run again: what it would run has changed since.")
        if self._spec.counts_as == "script" and _is_idempotent(self._request, self._registry):
            note = (
                f"[Started at {entry.started} and cut off; run again, as its skill declares it idempotent.]"
            )
            return self._started(entry.again(self._run, self._checkpoint), note, entry.answers)
        if self._policy.approval == "deny":
            return self._closed(entry, "It was not run again: nobody is asked here.")
        if self._policy.approval == "fail":
            raise ApprovalNeededError(self._call["name"], unknown_text(entry))
        self._replay(entry)
        decision = interrupt(self._question(entry), response_schema=OutcomeUnknownResponse).decisions[0]
        message = decision.message if isinstance(decision, Reject) else ""
        again = isinstance(decision, RunAgain)
        self._witness.answered(self._request, unknown_text(entry), again=again, message=message)
        if isinstance(decision, Reject):
            said = f": {decision.message}" if decision.message else "."
            return self._closed(entry, f"A person decided not to run it again{said}")
        # A graph around this one keeps its answers, and would give this one again after another crash.
        kept = entry.answers + bool(self._run.namespace)
        attempt = replace(entry.again(self._run, self._checkpoint), answers=kept)
        note = f"[Started at {entry.started} and cut off; a person had it run again.]"
        return self._started(attempt, note, entry.answers + 1)

    def _replay(self, entry: Entry) -> None:
        """Take the answers that were given before: LangGraph hands them out by position."""
        for _ in range(entry.answers):
            interrupt(self._question(entry), response_schema=OutcomeUnknownResponse)

    def _question(self, entry: Entry) -> HITLRequest:
        name = self._call["name"]
        return HITLRequest(
            action_requests=[
                ActionRequest(name=name, args=self._call["args"], description=unknown_text(entry))
            ],
            review_configs=[ReviewConfig(action_name=name, allowed_decisions=["approve", "reject"])],
        )

    def _started(self, entry: Entry, note: str = "", answers: int = 0) -> Attempt:
        # First: where the record must be kept and cannot be, the journal knows of no attempt.
        self._witness.starts(self._request)
        self._run.journal.put(entry)
        return Attempt(self._request, self._spec, self._run, entry, note, answers)

    def _closed(self, entry: Entry, decided: str) -> Outputs:
        """Answer a call whose outcome stays unknown; the answer is kept like a result."""
        produced = {"messages": [outcome_unknown(self._id, entry, decided)]}
        kept = replace(entry.done(produced), run=self._run.id, checkpoint=self._checkpoint)
        self._run.journal.put(kept)
        return _outputs(self._request, self._spec, produced)

    def _is_changed(self) -> bool:
        return self._approved != self._effect.digest


def _is_as_approved(request: CallRequest, registry: Registry) -> bool:
    approved, call = request["approved"], request["call"]
    return not approved or approved in (
        call_digest(call, None, registry),
        call_digest(call, _place(request), registry),
    )


def _place(request: CallRequest) -> SkillRef | None:
    return SkillRef.of(request["skill"]) if request["skill"] else None


def _is_idempotent(request: CallRequest, registry: Registry) -> bool:
    """Tell whether the skill says of a script, by its frontmatter, that running it again does no harm.

    `metadata: {idempotent: "scripts/a.py scripts/b.py"}`; the digest of the call vouches for the file.
    """
    place = _place(request)
    if place is None:
        return False
    declared = registry.load(place).metadata.metadata.get("idempotent", "")
    return str(request["call"]["args"].get("path")) in declared.split()


def _refused(request: CallRequest) -> Outputs:
    call = request["call"]
    text = changed_text(call["name"])
    return [Command(update=AgentUpdate(messages=[refusal(call["id"] or "", call["name"], text)]))]


def _outputs(request: CallRequest, spec: ToolSpec, produced: Any) -> Outputs:
    """Return what the tool produced and what it cost.

    ToolNode hands back a dict, or a list where a tool returned Commands; LangGraph takes a list of
    updates only with a Command in it.
    """
    call = request["call"]
    if request["edited"]:
        args = json.dumps(call["args"], ensure_ascii=False)
        produced = _noted(produced, f"[A person changed this call before it ran: {call['name']} {args}]")
    cost = spent(request["turn"], tool_calls=1, script_runs=int(spec.counts_as == "script"))
    return [*as_list(produced), Command(update=AgentUpdate(usage=cost))]


def _noted(produced: Any, note: str) -> Any:
    if note:
        for message in tool_messages(produced):
            if isinstance(message.content, str):
                message.content = f"{note}\n{message.content}"
            else:
                message.content = [{"type": "text", "text": note}, *message.content]
    return produced


def _reused(entry: Entry) -> Any:
    """Return the result of an earlier run, marked for the audit: this call itself did nothing."""
    produced = entry.produced
    for message in tool_messages(produced):
        message.additional_kwargs = {"skills_agent": {"reused": entry.started}}
    return produced


def _renamed(produced: Any, call_id: str) -> Any:
    for message in tool_messages(produced):
        message.tool_call_id = call_id
    return produced


def _exit_code(produced: Any) -> int | None:
    artifacts = (message.artifact for message in tool_messages(produced))
    return next((each.get("exit_code") for each in artifacts if isinstance(each, Mapping)), None)
