"""act: one tool call."""

import json
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Annotated, Any, Final, Literal, Protocol

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import Field

from skills_agent.nodes.asking import (
    Answer,
    AskedCall,
    Reject,
    answer_unknown,
    changed_text,
    make_question,
    over_budget_text,
    put_question,
    unapproved_text,
    with_words,
)
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.effects import (
    CallRunsError,
    Invocation,
    Invocations,
    JournalEntry,
    as_list,
    effect_of,
    tool_messages,
)
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.model_call import Steps, Waiting
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.question import RUN_AGAIN, STILL_RUNS, describe_question
from skills_agent.nodes.results import ResultLimits
from skills_agent.nodes.timeouts import ATTEMPT
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.tool_spec import ToolSpec
from skills_agent.skills.policy.verdict import ApprovalNeededError, Verdict
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import cut
from skills_agent.state.budget import Limits, counts_of_turn, spent_on_calls
from skills_agent.state.call_attempt import CALL_ATTEMPT, CallAttempt, key_of
from skills_agent.state.calls import call_request
from skills_agent.state.context import Context
from skills_agent.state.reducers import spent
from skills_agent.state.schema import AgentState, AgentUpdate, CallRequest
from skills_agent.state.transcript import (
    LOAD_SKILL,
    answered_ids,
    last_ai,
    marks_of,
    open_calls,
    refusal,
)

Outputs = list[AgentUpdate | Command[Any]]
Reply = ToolMessage | Command[Any] | list[ToolMessage | Command[Any]]

_REPLIES: Final = "__skills_agent_replies"
"""Where the list stands, in `configurable`, that a tool's reply is kept in. It stays out of checkpoints."""
_LONGEST_FINDING: Final = 10_000
"""Characters of what a tool says of a call that was cut off."""

logger = logging.getLogger(__name__)


class RunAgain(Answer):
    """Run a call again whose outcome is unknown."""

    type: Literal["approve"]


class OutcomeUnknownResponse(Answer):
    """What a person says about a call whose outcome is unknown."""

    decisions: tuple[Annotated[RunAgain | Reject, Field(discriminator="type")]]


class CallObserver(Protocol):
    """Gets a call before it does anything, so that there is a record whatever becomes of the process."""

    def starts(self, request: CallRequest, *, is_lasting: bool) -> None:
        """Note that a call is about to run; `is_lasting` where its thread outlives the process."""

    def answered(self, request: CallRequest, question: str, *, again: bool, message: str) -> None:
        """Note what a person said about a call whose outcome is unknown."""

    def doubted(self, call: ToolCall, reason: str) -> None:
        """Note that something was not believed that a client can write."""


def act(  # noqa: PLR0913 - the services of a node, each by its name
    request: CallRequest,
    runtime: Runtime[Context],
    *,
    tools: ToolNode,
    policy: Policy,
    limits: Limits,
    running: Invocations,
    coroutines: Collection[str],
    results: ResultLimits,
    observer: CallObserver,
    state_now: Callable[[], AgentState],
    skip_answers: Callable[[int], None],
) -> Steps[Outputs]:
    """Run one allowed call through LangGraph's ToolNode and count it.

    The call is looked up in the transcript, from which a client may have removed it, and judged again. Only
    what was approved or allowed is run: a call whose arguments or whose skill changed since is refused. An
    effect is written to the journal before and after: it is not repeated once it is done, and a person is
    asked where its outcome is unknown, about each attempt anew. A tool that fails becomes a tool message of
    status error. It waits for tools because some exist only as coroutines, as those of MCP servers do; their
    names are in `coroutines`.
    """
    state, sent = state_now(), request["call"]
    judge = Judge.of(policy, state, runtime)
    confirmed = _confirmed_request(sent, state)
    if confirmed is None:
        return _doubt(sent, state, observer, running.current())
    spec, info = policy.grammar.spec(sent["name"]), runtime.execution_info
    invocation = None if spec.risk == "read" else running.current()
    checkpoint = info.checkpoint_id if info else ""
    narrowed = Context.of(runtime.context).narrow(limits)
    cancelled = running.cancellation()
    call = _Attempt(
        confirmed, spec, policy, judge, observer, checkpoint, state, narrowed, cancelled, skip_answers
    )
    attempt = call.begin_effect(invocation, running) if invocation else call.begin()
    if isinstance(attempt, list):
        return attempt
    with running.effect(attempt.entry):
        try:
            produced = yield _waiting(tools, request["call"], attempt, coroutines)
        except GraphBubbleUp:
            attempt.pause()
            raise
        produced = results.fit(produced, spec.name, is_kept=running.current() is not None)
        return attempt.end(produced)


def _waiting(tools: ToolNode, call: ToolCall, attempt: "_Attempt", coroutines: Collection[str]) -> Waiting:
    replies: list[Reply] = []
    config = get_config()
    key = attempt.entry.attempt_key if attempt.entry else None
    own = {_REPLIES: replies, ATTEMPT: key, CALL_ATTEMPT: attempt.named}
    keeping = {**config, "configurable": {**config.get("configurable", {}), **own}}
    is_coroutine = call["name"] in coroutines
    arguments = {"config": RunnableConfig(**keeping)}  # type: ignore[typeddict-item]
    return Waiting(tools, [call], arguments, not is_coroutine, lambda: _produced(replies))


def _produced(replies: list[Reply]) -> Outputs | None:
    parts = [part for reply in replies for part in (reply if isinstance(reply, list) else [reply])]
    return [AgentUpdate(messages=[part]) if isinstance(part, ToolMessage) else part for part in parts] or None


async def keep_reply(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
    """Keep what a coroutine returned: where it is cancelled and returns all the same, asyncio drops that."""
    reply = await execute(request)
    request.runtime.config.get("configurable", {}).get(_REPLIES, []).append(reply)
    return reply


def _confirmed_request(sent: ToolCall, state: AgentState) -> CallRequest | None:
    """Return the request for a call as the state has it; None where it is not open, or not allowed."""
    call_id = sent["id"] or ""
    told = next((each for each in open_calls(state.get("messages") or []) if each["id"] == call_id), None)
    verdict = (state.get("verdicts") or {}).get(call_id)
    if told is None or verdict is None:
        return None
    request = call_request(state, call_id)
    if request is None or not _is_alike(request["call"], sent):
        return None
    is_edit = verdict["by"] == "approval" and request["edited"]
    return request if is_edit or _is_alike(told, sent) else None


def _is_alike(call: ToolCall, other: ToolCall) -> bool:
    return (call["name"], call["args"]) == (other["name"], other["args"])


def _doubt(
    call: ToolCall, state: AgentState, observer: CallObserver, invocation: Invocation | None
) -> Outputs:
    """Answer a call that is not open, or has no verdict; it may have begun before a crash."""
    call_id, reason = call["id"] or "", unapproved_text(call["name"])
    observer.doubted(call, reason)
    entry = invocation.journal.get(invocation.thread, call_id) if invocation else None
    message = refusal(call_id, call["name"], reason)
    if entry and entry.is_unknown:
        message = answer_unknown(call_id, entry, "No approval of it is confirmed here: it is not run again.")
    transcript = state.get("messages") or []
    is_open = any(each["id"] == call_id for each in open_calls(transcript))
    messages: list[AnyMessage] = [message] if is_open or call_id not in answered_ids(transcript) else []
    return [Command(update=AgentUpdate(messages=messages))]


@dataclass(frozen=True)
class _Attempt:
    """One attempt at a call, and what it takes to decide whether it begins."""

    request: CallRequest
    spec: ToolSpec
    policy: Policy
    judge: Judge
    observer: CallObserver
    checkpoint: str
    state: AgentState
    limits: Limits
    """Of this turn, for this caller."""
    cancellation: Cancellation
    skip_answers: Callable[[int], None]
    """Makes the next question of this task its n-th, counted from 0; answers to earlier ones go by."""
    invocation: Invocation | None = None
    entry: JournalEntry | None = None
    """What the journal has of it; None where the call only reads, or the thread is not kept."""
    note: str = ""
    """What the model is told before the result."""

    @property
    def id(self) -> str:
        return self.request["call"]["id"] or ""

    @property
    def named(self) -> CallAttempt:
        """Return what the tool may tell others of this attempt."""
        entry = self.entry
        return CallAttempt(entry.key, entry.attempt) if entry else CallAttempt(self._new_key(), 1)

    def _new_key(self, invocation: Invocation | None = None) -> str:
        told = last_ai(self.state["messages"])
        thread, message = invocation.thread if invocation else "", (told and told.id) or ""
        return key_of(thread, message, self.id, self.approved)

    @property
    def args(self) -> dict[str, Any]:
        return self.request["call"]["args"]

    @cached_property
    def call(self) -> Call:
        """Return the call as policy sees it."""
        return self.judge.call(self.spec.name, self.args)

    @property
    def skill(self) -> SkillRef | None:
        return SkillRef.of(self.request["skill"]) if self.request["skill"] else None

    @cached_property
    def effect(self) -> str:
        return effect_of(self.spec.name, self.call.args, self.skill, self.judge.registry)

    @property
    def approved(self) -> str:
        return self.request["approved"]

    @cached_property
    def objection(self) -> str:
        """Return why policy refuses the call now; empty where it may begin, with or without a person."""
        # What may be read without a question was judged without its skill.
        free = effect_of(self.spec.name, self.call.args, None, self.judge.registry)
        if self.approved != self.effect and (self.spec.risk != "read" or self.approved != free):
            return changed_text(self.spec.name)
        if self.verdict.decision == "deny":
            return self.verdict.reason
        budget = self._spent_budget()
        return over_budget_text(budget) if budget else ""

    @cached_property
    def verdict(self) -> Verdict:
        return self.judge.verdict(self.call)

    @cached_property
    def is_approved(self) -> bool:
        """Return whether nobody has to be asked, or whether this caller approved just this call."""
        record = self.state["verdicts"][self.id]
        by_caller = record["by"] == "approval" and record.get("user") == self.judge.user
        return self.verdict.decision == "allow" or (by_caller and self.policy.approval == "ask")

    def _spent_budget(self) -> str | None:
        """Name the budget that has no room for this call, after those before it in its message."""
        verdicts, spec_of = self.state["verdicts"], self.policy.grammar.spec
        calls = takewhile(lambda each: each["id"] != self.id, open_calls(self.state["messages"]))
        ahead = [
            verdicts[each["id"]] for each in calls if each["id"] in verdicts and each["name"] != LOAD_SKILL
        ]
        tools = [spec_of(each["tool"]) for each in ahead if each["decision"] == "allow"]
        counts, is_script = counts_of_turn(self.state), self.spec.counts_as == "script"
        scripts = counts["script_runs"] + sum(each.counts_as == "script" for each in tools)
        return spent_on_calls(self.limits, counts["tool_calls"] + len(tools), scripts if is_script else 0)

    def begin(self) -> "_Attempt | Outputs":
        """Begin a call that only reads, or whose thread is not kept."""
        if refused := self._refused():
            return refused
        self.cancellation.refuse_start()
        if self.spec.risk != "read":
            self.observer.starts(self.request, is_lasting=False)
        return self

    def begin_effect(self, invocation: Invocation, running: Invocations) -> "_Attempt | Outputs":
        """Return the attempt that is in the journal now; outputs where the effect is done or not repeated."""
        with invocation.lock:
            # Before the look-up: what returns in between is done there, or counts as running here.
            effects = running.effects
            entry = invocation.find_entry(
                self.id,
                self.spec.name,
                self.approved,
                self.request["earlier"],
                running.alive,
                is_announced=self.state["verdicts"][self.id].get("announced", False),
            )
            if entry is None or entry.status == "paused":
                if running.has_left(invocation.thread, self.approved):
                    return self._not_beside_itself()
                return self._first(entry, invocation)
            runs = entry.is_unknown and entry.attempt_key in effects
            # What a turn has ended with runs again only where somebody went back to an earlier step.
            is_replay = entry.settled and entry.call_id == self.id
            entry = self._claim(entry, invocation)
        if entry.is_unknown:
            return self._again(entry, invocation, runs=runs)
        produced = invocation.produced(entry)
        if is_replay:
            text = f"This call ran at {entry.clock}, before the conversation went back to this step."
            produced = _with_note(produced, f"[{text} It was not run again; its result was:]")
        for message in tool_messages(produced):  # For the audit: this call itself did nothing.
            message.additional_kwargs = {"skills_agent": {"reused": entry.started}}
        return self.outputs(produced)

    def end(self, produced: Any) -> Outputs:
        """Return what the tool returned; it is in the journal by then."""
        produced = _with_note(self._with_answer(produced), self.note)
        if self.invocation and self.entry and self._is_awaited(self.invocation, self.entry):
            self.invocation.journal.put(self.entry.done(produced))
        return self.outputs(produced)

    def _with_answer(self, produced: Any) -> Any:
        """Return what the tool returned with an answer to this call.

        A host's tool may return a Command without one, or a message that answers some other call. An open
        call counts as one that did not run, and providers refuse what comes after it.
        """
        answers = tool_messages(produced)
        if any(each.tool_call_id == self.id for each in answers):
            return produced
        if answers:
            answers[0].tool_call_id = self.id
            return produced
        text = f"{self.spec.name} returned, and said nothing."
        message = ToolMessage(text, tool_call_id=self.id, name=self.spec.name, id=f"silent-{self.id}")
        return [*as_list(produced), Command(update=AgentUpdate(messages=[message]))]

    def _is_awaited(self, invocation: Invocation, entry: JournalEntry) -> bool:
        """Return whether nobody has decided about the effect while it ran on after its run was cancelled."""
        if not self.cancellation.is_requested or invocation.journal.get(invocation.thread, self.id) == entry:
            return True
        logger.warning("a call returned after it was given up", extra={"tool": self.spec.name})
        return False

    def pause(self) -> None:
        """Note that the tool itself asked a person: it runs again from its first line."""
        if self.invocation and self.entry:
            self.invocation.journal.put(replace(self.entry, status="paused"))

    def outputs(self, produced: Any) -> Outputs:
        """Return what the tool returned and what it cost.

        LangGraph takes a list of updates only with a Command in it.
        """
        if self.request["edited"]:
            args = json.dumps(self.args, ensure_ascii=False)
            note = f"[A person changed this call before it ran: {self.spec.name} {args}]"
            produced = _with_note(produced, note)
            for message in tool_messages(produced):
                message.additional_kwargs = {"skills_agent": {**marks_of(message), "edited": self.args}}
        scripts = int(self.spec.counts_as == "script")
        cost = spent(self.request["turn"], tool_calls=1, script_runs=scripts)
        return [*as_list(produced), Command(update=AgentUpdate(usage=cost))]

    def _claim(self, entry: JournalEntry, invocation: Invocation) -> JournalEntry:
        """Give an entry to this call and, if it is done, to this invocation: a later call is another one."""
        claimed, is_lost = replace(entry, call_id=self.id), entry.call_id != self.id
        if entry.status in {"unconfirmed", "lost"}:
            claimed = replace(claimed, tool=self.spec.name, digest=self.approved)
            self.observer.doubted(self.request["call"], claimed.description)
        if entry.status == "done":
            if is_lost:
                produced = invocation.produced(entry)
                for message in tool_messages(produced):
                    message.tool_call_id = self.id
                note = (
                    f"[This call had already run, started at {entry.clock}, in a run that was cut off. "
                    "It was not run again; its result was:]"
                )
                claimed = claimed.done(_with_note(produced, note))
            claimed = replace(claimed, run=invocation.id, checkpoint=self.checkpoint, settled=False)
        if claimed != entry or entry.status == "lost":  # The answer is for an attempt that the journal has.
            # A damaged entry without a digest may be that of another effect, too: it stays.
            invocation.journal.put(claimed, replacing=entry.call_id if is_lost and entry.digest else None)
        return claimed

    def _not_beside_itself(self) -> Outputs:
        text = (
            "Not run: an earlier call of it that was given up at its time limit still runs, and it is not "
            "started beside itself. Go on without it, or call it when that one has returned."
        )
        return [Command(update=AgentUpdate(messages=[refusal(self.id, self.spec.name, text)]))]

    def _first(self, paused: JournalEntry | None, invocation: Invocation) -> "_Attempt | Outputs":
        if refused := self._refused():
            return refused
        if paused is None:
            entry = JournalEntry.of(self.id, self.spec.name, self.effect, invocation, self.checkpoint)
        else:
            self.skip_answers(paused.answers)
            entry = paused.again(invocation, self.checkpoint)
        return self._start(entry, invocation)

    def _again(self, entry: JournalEntry, invocation: Invocation, *, runs: bool) -> "_Attempt | Outputs":
        """Ask what becomes of an effect that was started and whose outcome is unknown."""
        if self.objection:
            text = f"It is not run again. {self.objection.removeprefix('Not run: ')}"
            return self._leave(entry, text, invocation)
        begun, again = f"[{entry.beginning}. ", entry.again(invocation, self.checkpoint)
        if not runs and (recovered := self._recovered(entry, again, invocation)):
            return recovered
        if not runs and self._is_answered(entry):
            self.skip_answers(entry.answers)
            return self._start(again, invocation, f"{begun}A person had it run again.]")
        if self.policy.approval == "deny":
            return self._leave(entry, "It was not run again: nobody is asked here.", invocation)
        if self.policy.approval == "fail":
            raise ApprovalNeededError(self.spec.name, entry.description)
        decision = self._ask(entry, runs=runs).decisions[0]
        message, is_repeated = getattr(decision, "message", ""), isinstance(decision, RunAgain)
        self.observer.answered(self.request, entry.description, again=is_repeated, message=message)
        if not is_repeated:
            said = with_words("A person decided not to run it again", message)
            return self._leave(entry, said, invocation)
        if runs:
            raise CallRunsError(self.spec.name)
        again = replace(again, answers=entry.attempt + 1)
        return self._start(again, invocation, f"{begun}A person had it run again.]")

    def _ask(self, entry: JournalEntry, *, runs: bool = False) -> OutcomeUnknownResponse:
        # What the tool itself asked in this attempt, and what was asked about earlier ones, comes before.
        self.skip_answers(entry.attempt)
        name = self.spec.name
        reason = STILL_RUNS if runs else RUN_AGAIN
        description = describe_question(self.call, reason, self.judge, self.policy, entry.description)
        question = make_question([AskedCall(name, self.call.args, description, entry)], fixed=[name])
        return put_question(question, OutcomeUnknownResponse)

    def _start(self, entry: JournalEntry, invocation: Invocation, note: str = "") -> "_Attempt":
        self.cancellation.refuse_start()
        invocation.check_lock()
        # First: where the record must be kept and cannot be, the journal has no attempt.
        self.observer.starts(self.request, is_lasting=invocation.is_lasting)
        started = replace(entry, key=entry.key or self._new_key(invocation))
        invocation.journal.put(started)
        invocation.announced.discard(self.id)
        return replace(self, invocation=invocation, entry=started, note=note)

    def _leave(self, entry: JournalEntry, decision: str, invocation: Invocation) -> Outputs:
        return self._close(entry, answer_unknown(self.id, entry, decision), invocation)

    def _close(self, entry: JournalEntry, answer: ToolMessage, invocation: Invocation) -> Outputs:
        produced = {"messages": [answer]}
        invocation.journal.put(replace(entry.done(produced), run=invocation.id, checkpoint=self.checkpoint))
        return self.outputs(produced)

    def _refused(self) -> Outputs:
        """Return the answer to a call that must not begin; empty where it may. Raises ApprovalNeededError."""
        if not self.objection and self.is_approved:
            return []
        if not self.objection and self.policy.approval == "fail":
            raise ApprovalNeededError(self.spec.name, self.verdict.reason)
        text = self.objection or unapproved_text(self.spec.name)
        if not self.objection:
            self.observer.doubted(self.request["call"], text)
        message = refusal(self.id, self.spec.name, text)
        return [Command(update=AgentUpdate(messages=[message]))]

    def _is_answered(self, entry: JournalEntry) -> bool:
        """Return whether the question that approved this call told of this very attempt."""
        record = self.state["verdicts"][self.id]
        told = record.get("cut_off")
        is_told = told is not None and told["started"] == entry.started != ""
        return is_told and record["by"] == "approval" and self.is_approved

    def _recovered(
        self, entry: JournalEntry, again: JournalEntry, invocation: Invocation
    ) -> "_Attempt | Outputs | None":
        """Return what its tool, or its skill, has declared to become of the call; None: a person is asked."""
        recovery, begun = self.spec.recovery, f"[{entry.beginning}."
        why = "as its skill declares it idempotent" if self._is_idempotent() else ""
        if recovery == "retry":
            why = "which repeats nothing"
        elif recovery != "ask" and not entry.key:  # The journal has lost it.
            return None
        elif recovery == "by key":
            why = "and who does its work knows it by its key"
        elif callable(recovery):
            try:
                found = recovery(self.call.args, entry.key)
            except Exception as error:
                logger.warning(
                    "a tool cannot say what it did", extra={"tool": self.spec.name}, exc_info=error
                )
                return None
            if found is not None:
                text = f"{begun} It did its work, as was found afterwards:]\n{cut(found, _LONGEST_FINDING)}"
                name = self.spec.name
                answer = ToolMessage(text, tool_call_id=self.id, name=name, id=f"found-{self.id}")
                return self._close(entry, answer, invocation)
            why = "as it had not done its work"
        if not (why and self.is_approved):
            return None
        self.skip_answers(entry.answers)
        return self._start(again, invocation, f"{begun} It ran again, {why}.]")

    def _is_idempotent(self) -> bool:
        if self.skill is None or self.spec.counts_as != "script":
            return False
        declared = self.judge.registry.load(self.skill).metadata.metadata.get("idempotent", "")
        return self.call.path in declared.split()


def _with_note(produced: Any, note: str) -> Any:
    if note:
        for message in tool_messages(produced):
            if isinstance(message.content, str):
                message.content = f"{note}\n{message.content}"
            else:
                message.content = [{"type": "text", "text": note}, *message.content]
    return produced
