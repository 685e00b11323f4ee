"""act: one tool call."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.runtime import get_runtime
from langgraph.types import Command, interrupt
from pydantic import Field

from skills_agent.nodes.effects import (
    Effect,
    Invocation,
    Invocations,
    JournalEntry,
    JournalMatch,
    JournalQuery,
    as_list,
    find_effect,
    tool_messages,
)
from skills_agent.nodes.judge import (
    ActionRequest,
    Answer,
    HITLRequest,
    Policy,
    Reject,
    answer_unknown,
    changed_text,
    describe_unknown,
    effect_of,
    make_question,
)
from skills_agent.nodes.model_call import TwoPaths
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.skills.policy.verdict import ApprovalNeededError
from skills_agent.skills.skill import SkillRef
from skills_agent.state.context import Context
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
    """Gets a call before it does anything, so that there is a record whatever becomes of the process."""

    def starts(self, request: CallRequest) -> None:
        """Note that a call is about to run."""
        ...

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Note what a person said about a call whose outcome is unknown."""
        ...


def act(*, tools: ToolNode, policy: Policy, running: Invocations, observer: CallObserver) -> TwoPaths:
    """Return the node that runs one allowed call through LangGraph's ToolNode and counts it.

    Only what was approved or allowed is run: a call whose arguments or whose skill changed since is refused.
    An effect is written to the journal before and after: it is not repeated once it is done, and a person is
    asked where its outcome is unknown. A tool that fails becomes a tool message of status error. The async
    path is for host tools that exist only as coroutines, as those of MCP servers do.
    """

    def sync_path(request: CallRequest) -> Outputs:
        attempt = _begin(request, policy, running, observer)
        if isinstance(attempt, list):
            return attempt
        try:
            produced = tools.invoke([request["call"]], get_config())
        except GraphBubbleUp:
            attempt.pause()
            raise
        return attempt.end(produced)

    async def async_path(request: CallRequest) -> Outputs:
        attempt = await asyncio.to_thread(_begin, request, policy, running, observer)
        if isinstance(attempt, list):
            return attempt
        try:
            produced = await tools.ainvoke([request["call"]], get_config())
        except GraphBubbleUp:
            await asyncio.to_thread(attempt.pause)
            raise
        return await asyncio.to_thread(attempt.end, produced)

    return TwoPaths("act", sync_path, async_path)


@dataclass(frozen=True)
class Attempt:
    """One attempt at a call."""

    request: CallRequest
    spec: ToolSpec
    invocation: Invocation | None = None
    entry: JournalEntry | None = None
    """What the journal has of it; None where the call only reads, or the thread is not kept."""
    note: str = ""
    """What the model is told before the result."""
    answers: int = 0
    """How often a person was asked about it by this node."""

    def end(self, produced: Any) -> Outputs:
        """Return what the tool returned; it is in the journal by then."""
        exit_code = _exit_code(produced)
        produced = _with_note(produced, self.note)
        if self.invocation and self.entry:
            self.invocation.journal.put(self.entry.done(produced, exit_code))
        return _outputs(self.request, self.spec, produced)

    def pause(self) -> None:
        """Note that the tool itself asked a person: it runs again from its first line."""
        if self.invocation and self.entry:
            self.invocation.journal.put(replace(self.entry, status="paused", answers=self.answers))


def _begin(
    request: CallRequest, policy: Policy, running: Invocations, observer: CallObserver
) -> Attempt | Outputs:
    """Return the attempt that is in the journal now, or outputs where nothing is to be run."""
    runtime = get_runtime(Context)
    registry = policy.registry(runtime)
    spec = policy.spec(request["call"]["name"])
    invocation = None if spec.risk == "read" else running.current()
    if invocation is None:
        if not _is_as_approved(request, registry):
            return _refused(request)
        if spec.risk != "read":
            observer.starts(request)
        return Attempt(request, spec)
    info = runtime.execution_info
    checkpoint = info.checkpoint_id if info else ""
    return _Effects(request, spec, policy, registry, observer, invocation, checkpoint).begin(running)


@dataclass(frozen=True)
class _Effects:
    """Decides whether one effect begins, in a thread that is kept."""

    request: CallRequest
    spec: ToolSpec
    policy: Policy
    registry: Registry
    observer: CallObserver
    invocation: Invocation
    checkpoint: str

    @cached_property
    def effect(self) -> Effect:
        return effect_of(self.request["call"], _place(self.request), self.registry)

    @property
    def approved(self) -> str:
        return self.request["approved"] or self.effect.digest

    def begin(self, running: Invocations) -> Attempt | Outputs:
        """Return the attempt that begins; outputs where the effect is done, refused, or left as it is."""
        query = JournalQuery(self.request["call"]["id"] or "", self.approved, self.request.get("earlier", ()))
        with self.invocation.lock:
            match = find_effect(query, self.invocation, running.is_alive)
            if match.entry is None or match.fate == "new":
                return self._first(match.entry)
            entry = self._claim(match, match.entry)
        if match.fate == "done":
            return _outputs(self.request, self.spec, _reused(entry))
        return self._again(entry)

    def _claim(self, match: JournalMatch, entry: JournalEntry) -> JournalEntry:
        """Give an entry to this call and, if it is done, to this invocation: a later call is another one."""
        claimed = replace(entry, call_id=self.request["call"]["id"] or "")
        if match.fate == "done":
            produced = _with_call_id(entry.produced, claimed.call_id)
            if match.is_lost:
                note = (
                    f"[This call had already run, started at {entry.started}, in a run that was cut off. "
                    "It was not run again; its result was:]"
                )
                claimed = claimed.done(_with_note(produced, note), entry.exit_code)
            claimed = replace(
                claimed,
                run=self.invocation.id,
                checkpoint=self.checkpoint,
                ended=entry.ended,
                settled=False,
            )
        if claimed != entry:
            self.invocation.journal.put(claimed, replacing=entry.call_id if match.is_lost else None)
        return claimed

    def _first(self, paused: JournalEntry | None) -> Attempt | Outputs:
        """Write the entry of a call that starts, or that goes on after its own question."""
        if self.approved != self.effect.digest:
            return _refused(self.request)
        if paused is None:
            call_id = self.request["call"]["id"] or ""
            entry = JournalEntry.of(call_id, self.effect, self.invocation, self.checkpoint)
        else:
            self._replay(paused)
            entry = paused.again(self.invocation, self.checkpoint)
        return self._start(entry, answers=entry.answers)

    def _again(self, entry: JournalEntry) -> Attempt | Outputs:
        """Ask what becomes of a call that was started and whose outcome is unknown."""
        if self.approved != self.effect.digest:
            return self._close(entry, "It is not run again: what it would run has changed since.")
        begun = f"[Started at {entry.started} and cut off; "
        if self.spec.counts_as == "script" and _is_idempotent(self.request, self.registry):
            note = f"{begun}run again, as its skill declares it idempotent.]"
            return self._start(entry.again(self.invocation, self.checkpoint), note, entry.answers)
        if self.policy.approval == "deny":
            return self._close(entry, "It was not run again: nobody is asked here.")
        if self.policy.approval == "fail":
            raise ApprovalNeededError(self.spec.name, describe_unknown(entry))
        self._replay(entry)
        answer = interrupt(self._question(entry), response_schema=OutcomeUnknownResponse).decisions[0]
        message, again = getattr(answer, "message", ""), isinstance(answer, RunAgain)
        self.observer.answered(self.request, describe_unknown(entry), again=again, message=message)
        if not again:
            reason = f": {message}" if message else "."
            return self._close(entry, f"A person decided not to run it again{reason}")
        # A graph around this one keeps its answers, and would give this one again after another crash.
        answers = entry.answers + bool(self.invocation.namespace)
        attempt = replace(entry.again(self.invocation, self.checkpoint), answers=answers)
        return self._start(attempt, f"{begun}a person had it run again.]", entry.answers + 1)

    def _replay(self, entry: JournalEntry) -> None:
        """Take the answers that were given before: LangGraph hands them out by position."""
        for _ in range(entry.answers):
            interrupt(self._question(entry), response_schema=OutcomeUnknownResponse)

    def _question(self, entry: JournalEntry) -> HITLRequest:
        name, args = self.spec.name, self.request["call"]["args"]
        call = ActionRequest(name=name, args=args, description=describe_unknown(entry))
        return make_question([call], fixed=[name])

    def _start(self, entry: JournalEntry, note: str = "", answers: int = 0) -> Attempt:
        # First: where the record must be kept and cannot be, the journal has no attempt.
        self.observer.starts(self.request)
        self.invocation.journal.put(entry)
        return Attempt(self.request, self.spec, self.invocation, entry, note, answers)

    def _close(self, entry: JournalEntry, decision: str) -> Outputs:
        """Answer a call whose outcome stays unknown; the answer is kept like a result."""
        produced = {"messages": [answer_unknown(entry.call_id, entry, decision)]}
        done = replace(entry.done(produced), run=self.invocation.id, checkpoint=self.checkpoint)
        self.invocation.journal.put(done)
        return _outputs(self.request, self.spec, produced)


def _is_as_approved(request: CallRequest, registry: Registry) -> bool:
    """Return whether a call is what was approved: what may be read freely was pinned without its skill."""
    approved, call = request["approved"], request["call"]
    return not approved or approved in (
        effect_of(call, None, registry).digest,
        effect_of(call, _place(request), registry).digest,
    )


def _place(request: CallRequest) -> SkillRef | None:
    return SkillRef.of(request["skill"]) if request["skill"] else None


def _is_idempotent(request: CallRequest, registry: Registry) -> bool:
    """Return whether the skill declares that running a script again does no harm.

    `metadata: {idempotent: "scripts/a.py scripts/b.py"}`; the digest of the call vouches for the file.
    """
    place = _place(request)
    if place is None:
        return False
    declared = registry.load(place).metadata.metadata.get("idempotent", "")
    return str(request["call"]["args"].get("path")) in declared.split()


def _refused(request: CallRequest) -> Outputs:
    name, call_id = request["call"]["name"], request["call"]["id"] or ""
    return [Command(update=AgentUpdate(messages=[refusal(call_id, name, changed_text(name))]))]


def _outputs(request: CallRequest, spec: ToolSpec, produced: Any) -> Outputs:
    """Return what the tool returned and what it cost.

    LangGraph takes a list of updates only with a Command in it.
    """
    if request["edited"]:
        args = json.dumps(request["call"]["args"], ensure_ascii=False)
        produced = _with_note(produced, f"[A person changed this call before it ran: {spec.name} {args}]")
    cost = spent(request["turn"], tool_calls=1, script_runs=int(spec.counts_as == "script"))
    return [*as_list(produced), Command(update=AgentUpdate(usage=cost))]


def _with_note(produced: Any, note: str) -> Any:
    if note:
        for message in tool_messages(produced):
            if isinstance(message.content, str):
                message.content = f"{note}\n{message.content}"
            else:
                message.content = [{"type": "text", "text": note}, *message.content]
    return produced


def _reused(entry: JournalEntry) -> Any:
    """Return the result of an earlier attempt, marked for the audit: this call itself did nothing."""
    produced = entry.produced
    for message in tool_messages(produced):
        message.additional_kwargs = {"skills_agent": {"reused": entry.started}}
    return produced


def _with_call_id(produced: Any, call_id: str) -> Any:
    for message in tool_messages(produced):
        message.tool_call_id = call_id
    return produced


def _exit_code(produced: Any) -> int | None:
    artifacts = (message.artifact for message in tool_messages(produced))
    return next((artifact.get("exit_code") for artifact in artifacts if isinstance(artifact, Mapping)), None)
