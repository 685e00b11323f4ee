"""act: one tool call."""

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from pydantic import Field

from skills_agent.nodes.effects import (
    Invocation,
    Invocations,
    JournalEntry,
    as_list,
    effect_of,
    tool_messages,
)
from skills_agent.nodes.judge import Answer, Policy, Reject, answer_unknown, changed_text, make_question
from skills_agent.nodes.model_call import Steps, Waiting
from skills_agent.nodes.question import contents_of
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.policy.question import describe
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

    decisions: tuple[Annotated[RunAgain | Reject, Field(discriminator="type")]]


class CallObserver(Protocol):
    """Gets a call before it does anything, so that there is a record whatever becomes of the process."""

    def starts(self, request: CallRequest) -> None:
        """Note that a call is about to run."""

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Note what a person said about a call whose outcome is unknown."""


def act(
    request: CallRequest,
    runtime: Runtime[Context],
    *,
    tools: ToolNode,
    policy: Policy,
    running: Invocations,
    observer: CallObserver,
) -> Steps[Outputs]:
    """Run one allowed call through LangGraph's ToolNode and count it.

    Only what was approved or allowed is run: a call whose arguments or whose skill changed since is refused.
    An effect is written to the journal before and after: it is not repeated once it is done, and a person is
    asked where its outcome is unknown. A tool that fails becomes a tool message of status error. It waits
    for tools because some exist only as coroutines, as those of MCP servers do.
    """
    registry, spec = policy.registry(runtime), policy.grammar.spec(request["call"]["name"])
    info = runtime.execution_info
    invocation = None if spec.risk == "read" else running.current()
    call = _Attempt(request, spec, policy, registry, observer, info.checkpoint_id if info else "")
    attempt = call.begin_effect(invocation, running) if invocation else call.begin()
    if isinstance(attempt, list):
        return attempt
    try:
        produced = yield Waiting(tools, [request["call"]], {"config": get_config()})
    except GraphBubbleUp:
        attempt.pause()
        raise
    return attempt.end(produced)


@dataclass(frozen=True)
class _Attempt:
    """One attempt at a call, and what it takes to decide whether it begins."""

    request: CallRequest
    spec: ToolSpec
    policy: Policy
    registry: Registry
    observer: CallObserver
    checkpoint: str
    invocation: Invocation | None = None
    entry: JournalEntry | None = None
    """What the journal has of it; None where the call only reads, or the thread is not kept."""
    note: str = ""
    """What the model is told before the result."""
    answers: int = 0
    """How often a person was asked about it by this node."""

    @property
    def id(self) -> str:
        return self.request["call"]["id"] or ""

    @property
    def args(self) -> dict[str, Any]:
        return self.request["call"]["args"]

    @property
    def skill(self) -> SkillRef | None:
        return SkillRef.of(self.request["skill"]) if self.request["skill"] else None

    @cached_property
    def effect(self) -> str:
        return effect_of(self.spec.name, self.args, self.skill, self.registry)

    @property
    def approved(self) -> str:
        return self.request["approved"] or self.effect

    def begin(self) -> "_Attempt | Outputs":
        """Begin a call that only reads, or whose thread is not kept."""
        # What may be read without a question was judged without its skill.
        free = effect_of(self.spec.name, self.args, None, self.registry)
        if self.request["approved"] != free and self.approved != self.effect:
            return self._refuse()
        if self.spec.risk != "read":
            self.observer.starts(self.request)
        return self

    def begin_effect(self, invocation: Invocation, running: Invocations) -> "_Attempt | Outputs":
        """Return the attempt that is in the journal now; outputs where the effect is done or not repeated."""
        earlier = self.request.get("earlier", ())
        with invocation.lock:
            entry = invocation.find_entry(self.id, self.approved, earlier, running)
            if entry is None or entry.status == "paused":
                return self._first(entry, invocation)
            entry = self._claim(entry, invocation)
        if entry.status == "started":
            return self._again(entry, invocation)
        produced = invocation.produced(entry)
        for message in tool_messages(produced):  # For the audit: this call itself did nothing.
            message.additional_kwargs = {"skills_agent": {"reused": entry.started}}
        return self.outputs(produced)

    def end(self, produced: Any) -> Outputs:
        """Return what the tool returned; it is in the journal by then."""
        produced = _with_note(produced, self.note)
        if self.invocation and self.entry:
            self.invocation.journal.put(self.entry.done(produced))
        return self.outputs(produced)

    def pause(self) -> None:
        """Note that the tool itself asked a person: it runs again from its first line."""
        if self.invocation and self.entry:
            self.invocation.journal.put(replace(self.entry, status="paused", answers=self.answers))

    def outputs(self, produced: Any) -> Outputs:
        """Return what the tool returned and what it cost.

        LangGraph takes a list of updates only with a Command in it.
        """
        if self.request["edited"]:
            args = json.dumps(self.args, ensure_ascii=False)
            note = f"[A person changed this call before it ran: {self.spec.name} {args}]"
            produced = _with_note(produced, note)
        scripts = int(self.spec.counts_as == "script")
        cost = spent(self.request["turn"], tool_calls=1, script_runs=scripts)
        return [*as_list(produced), Command(update=AgentUpdate(usage=cost))]

    def _claim(self, entry: JournalEntry, invocation: Invocation) -> JournalEntry:
        """Give an entry to this call and, if it is done, to this invocation: a later call is another one."""
        claimed, is_lost = replace(entry, call_id=self.id), entry.call_id != self.id
        if entry.status == "done":
            if is_lost:
                produced = invocation.produced(entry)
                for message in tool_messages(produced):
                    message.tool_call_id = self.id
                note = (
                    f"[This call had already run, started at {entry.started}, in a run that was cut off. "
                    "It was not run again; its result was:]"
                )
                claimed = claimed.done(_with_note(produced, note))
            claimed = replace(claimed, run=invocation.id, checkpoint=self.checkpoint, settled=False)
        if claimed != entry:
            invocation.journal.put(claimed, replacing=entry.call_id if is_lost else None)
        return claimed

    def _first(self, paused: JournalEntry | None, invocation: Invocation) -> "_Attempt | Outputs":
        if self.approved != self.effect:
            return self._refuse()
        if paused is None:
            entry = JournalEntry.of(self.id, self.spec.name, self.effect, invocation, self.checkpoint)
        else:
            self._replay(paused)
            entry = paused.again(invocation, self.checkpoint)
        return self._start(entry, invocation, answers=entry.answers)

    def _again(self, entry: JournalEntry, invocation: Invocation) -> "_Attempt | Outputs":
        """Ask what becomes of an effect that was started and whose outcome is unknown."""
        if self.approved != self.effect:
            text = "It is not run again: what it would run has changed since."
            return self._close(entry, text, invocation)
        begun, again = f"[Started at {entry.started} and cut off; ", entry.again(invocation, self.checkpoint)
        if self._is_idempotent():
            note = f"{begun}run again, as its skill declares it idempotent.]"
            return self._start(again, invocation, note, entry.answers)
        if self.policy.approval == "deny":
            return self._close(entry, "It was not run again: nobody is asked here.", invocation)
        if self.policy.approval == "fail":
            raise ApprovalNeededError(self.spec.name, entry.description)
        self._replay(entry)
        decision = self._ask(entry).decisions[0]
        message, is_repeated = getattr(decision, "message", ""), isinstance(decision, RunAgain)
        self.observer.answered(self.request, entry.description, again=is_repeated, message=message)
        if not is_repeated:
            reason = f": {message}" if message else "."
            return self._close(entry, f"A person decided not to run it again{reason}", invocation)
        # A graph around this one keeps its answers, and would give this one again after another crash.
        again = replace(again, answers=entry.answers + bool(invocation.namespace))
        return self._start(again, invocation, f"{begun}a person had it run again.]", entry.answers + 1)

    def _replay(self, entry: JournalEntry) -> None:
        """Take the answers that were given before: LangGraph hands them out by position."""
        for _ in range(entry.answers):
            self._ask(entry)

    def _ask(self, entry: JournalEntry) -> OutcomeUnknownResponse:
        name = self.spec.name
        call = self.policy.grammar.call(name, self.args)
        description = describe([], contents_of(call, self.policy), entry.description)
        question = make_question([(name, self.args, description)], fixed=[name])
        response: OutcomeUnknownResponse = interrupt(question, response_schema=OutcomeUnknownResponse)
        return response

    def _start(
        self, entry: JournalEntry, invocation: Invocation, note: str = "", answers: int = 0
    ) -> "_Attempt":
        # First: where the record must be kept and cannot be, the journal has no attempt.
        self.observer.starts(self.request)
        invocation.journal.put(entry)
        return replace(self, invocation=invocation, entry=entry, note=note, answers=answers)

    def _close(self, entry: JournalEntry, decision: str, invocation: Invocation) -> Outputs:
        produced = {"messages": [answer_unknown(self.id, entry, decision)]}
        invocation.journal.put(replace(entry.done(produced), run=invocation.id, checkpoint=self.checkpoint))
        return self.outputs(produced)

    def _refuse(self) -> Outputs:
        message = refusal(self.id, self.spec.name, changed_text(self.spec.name))
        return [Command(update=AgentUpdate(messages=[message]))]

    def _is_idempotent(self) -> bool:
        if self.skill is None or self.spec.counts_as != "script":
            return False
        declared = self.registry.load(self.skill).metadata.metadata.get("idempotent", "")
        return str(self.args.get("path")) in declared.split()


def _with_note(produced: Any, note: str) -> Any:
    if note:
        for message in tool_messages(produced):
            if isinstance(message.content, str):
                message.content = f"{note}\n{message.content}"
            else:
                message.content = [{"type": "text", "text": note}, *message.content]
    return produced
