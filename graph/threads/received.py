"""What an invocation begins with: an answer to a question that is open, a request that is new, or neither.

A message of a person that is sent again is the same turn, not a second one: the id of the message is the id
of the request. Clients of LangGraph's server send one with every message, and send it again where they do not
know whether it arrived.
"""

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Interrupt, StateSnapshot

from skills_agent.graph.langgraph_inside import request_time
from skills_agent.graph.threads.errors import AnsweredError, JournalError, ThreadError
from skills_agent.graph.threads.inputs import believed, makes_claims, messages_in
from skills_agent.graph.threads.thread import Thread, status_of
from skills_agent.nodes.interrupts import AskedAttempt
from skills_agent.state.transcript import calls_of, is_synthetic

logger = logging.getLogger(__name__)

_INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}")


class Received(NamedTuple):
    """What an invocation begins with, and what of it is refused when it has ended."""

    input: Any
    outdated: Collection[str] = ()
    """Ids of questions that were answered before a crash. They are asked anew instead."""
    values: Mapping[str, Any] | None = None
    """What a request came to that was sent before, and whose turn is over: nothing runs."""


def needs_state(given: Any, thread: Thread) -> bool:
    """Return whether the state says what an input is.

    It may be an answer, a request that came before, or say something about the calls of the thread.
    """
    return _is_answer(given, thread) or _request(given, thread) is not None or makes_claims(given)


def receive(
    given: Any, whole: StateSnapshot | None, thread: Thread | None, config: RunnableConfig
) -> Received:
    """Return what an input is for a thread that stands so; of no thread, it is what is believed of it.

    `whole` has the questions that the journal is past, too.
    """
    received = Received(given)
    if whole and thread and _is_answer(given, thread):
        is_replay = thread.is_addressed
        received = _replayed(given, whole) if is_replay else _addressed(given, whole, thread, config)
    elif whole and thread and (request := _request(given, thread)) and _is_known(request, whole):
        received = Received(None, values=_values_after(request, whole))
    return received._replace(input=believed(received.input, whole))


def _is_answer(given: Any, thread: Thread) -> bool:
    return thread.is_root and isinstance(given, Command) and given.resume is not None


def _request(given: Any, thread: Thread) -> HumanMessage | None:
    """Return the message that an input asks something with; None if it has no id, or also removes some."""
    if not thread.is_root or thread.is_addressed:
        return None
    try:
        messages = messages_in(given.get("messages") if isinstance(given, Mapping) else None)
    except (NotImplementedError, ValueError):  # no messages: LangGraph says so
        return None
    newest = next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
    removes = any(isinstance(message, RemoveMessage) for message in messages)
    return newest if newest and newest.id and not removes else None


def _is_known(request: HumanMessage, snapshot: StateSnapshot) -> bool:
    """Return whether a thread has a request already.

    Raises ThreadError where its id is that of another message of the thread.
    """
    known = next((message for message in _messages(snapshot) if message.id == request.id), None)
    if known is not None and (not isinstance(known, HumanMessage) or _text(known) != _text(request)):
        thread = snapshot.config["configurable"]["thread_id"]
        raise ThreadError(
            f"Thread {thread!r} has another message with the id {str(request.id)!r}. The same request may be "
            "sent again; another one needs an id of its own.",
            code="request-id-used",
        )
    return known is not None


def _values_after(request: HumanMessage, snapshot: StateSnapshot) -> dict[str, Any] | None:
    """Return the channels of a thread as the turn of a known request left what it said.

    None for a turn that is not over: it was cut off, or waits for a person. A turn that a later message
    superseded has no answer.
    """
    messages = _messages(snapshot)
    at = [message.id for message in messages].index(request.id)
    later = (place for place in range(at + 1, len(messages)) if isinstance(messages[place], HumanMessage))
    if (end := next(later, None)) is None:
        return dict(snapshot.values) if status_of(snapshot) == "done" else None
    last = messages[end - 1]
    is_final = isinstance(last, AIMessage) and not calls_of(last) and not is_synthetic(last)
    left = {"structured_response": None} if "structured_response" in snapshot.values else {}
    answer = str(last.text) if is_final else ""
    return {**snapshot.values, **left, "messages": messages[:end], "answer": answer}


def _messages(snapshot: StateSnapshot) -> list[AnyMessage]:
    return snapshot.values.get("messages") or []


def _text(message: AnyMessage) -> str:
    """Return what is compared: what was stored may lack what no person says, or half a character."""
    return str(message.text).encode(errors="replace").decode()


def _replayed(command: Command[Any], step: StateSnapshot) -> Received:
    """Return an answer to a question of a step that its config names.

    LangGraph goes on with what came of the first answer, whatever a second one says. Raises
    AnsweredError.
    """
    closed = {interrupt.id for task in step.tasks if task.result is not None for interrupt in task.interrupts}
    is_open = [interrupt.id for interrupt in step.interrupts if interrupt.id not in closed]
    named = closed.intersection(command.resume) if isinstance(command.resume, dict) else set()
    if named or (closed and not is_open):
        thread = step.config["configurable"]["thread_id"]
        said = (
            f"The question at this step of thread {thread!r} was answered already, and what came of that "
            "stands. To answer it otherwise, run the step again without an answer, invoke(None, config), and "
            "answer then."
        )
        raise AnsweredError(thread, sorted(named or closed), is_open, said)
    return Received(command)


def _addressed(command: Command[Any], whole: StateSnapshot, kept: Thread, config: RunnableConfig) -> Received:
    """Return an answer with the id of its question.

    LangGraph keeps an answer without one in the thread, and gives it to the next question that is asked
    after a crash, whatever that is. Its server queues a second answer (a double click) behind the first, and
    gives it to the question after: nobody has seen that one. An answer to an attempt that was cut off again
    counts for nothing. Raises AnsweredError.
    """
    thread, now = kept.key.thread, current(whole, kept)
    is_open = [interrupt.id for interrupt in now.interrupts]
    outdated = {interrupt.id for interrupt in whole.interrupts}.difference(is_open)
    resume = command.resume
    if isinstance(resume, dict) and all(_INTERRUPT_ID.fullmatch(str(key)) for key in resume):
        if outdated.intersection(resume):
            return Received(None, outdated.intersection(resume))
        if closed := sorted(set(resume) - set(is_open)):
            raise AnsweredError(thread, closed, is_open)
        return Received(command)
    if outdated:
        return Received(None, outdated)
    if not is_open:
        raise AnsweredError(thread, (), ())
    sent, asked = request_time(config["configurable"]), now.created_at
    if sent and asked and sent < datetime.fromisoformat(asked):
        said = (
            f"The answer to thread {thread!r} names no question, and was sent before the open one was asked. "
            f"Look at that one, and answer it by its id: {', '.join(is_open)}."
        )
        raise AnsweredError(thread, (), is_open, said)
    if len(is_open) > 1:
        return Received(command)  # LangGraph says that their ids are wanted.
    of = AskedAttempt.of(now.interrupts[0].value)
    if of and of.attempt > 1 and not _rejects(resume):
        said = (
            f"Thread {thread!r} asks about attempt {of.attempt} of a call that was cut off. An approval that "
            "names no question may be one of an earlier attempt. Answer by the id of the question: "
            f"{is_open[0]}."
        )
        raise AnsweredError(thread, (), is_open, said)
    return Received(replace(command, resume={is_open[0]: resume}))


def current(snapshot: StateSnapshot, thread: Thread | None) -> StateSnapshot:
    """Return a snapshot without the questions about attempts that the journal is past.

    LangGraph keeps such a question until its task ends or asks again.
    """
    asked = asked_attempts(snapshot)
    if thread is None or not asked:
        return snapshot
    try:
        journal = thread.journal
        known = {each: journal.get(thread.name, of.call_id) for each, of in asked.items()}
        past = {each for each, of in asked.items() if not of.is_open(known[each])}
    except JournalError as error:
        logger.warning("journal not read", extra={"of_thread": thread.name, "cause": str(error)})
        return snapshot
    return _without(snapshot, past)


def asked_attempts(snapshot: StateSnapshot) -> dict[str, AskedAttempt]:
    return {interrupt.id: of for interrupt in snapshot.interrupts if (of := AskedAttempt.of(interrupt.value))}


def _rejects(answer: Any) -> bool:
    decisions = answer.get("decisions") if isinstance(answer, dict) else None
    return isinstance(decisions, list) and all(
        isinstance(decision, dict) and decision.get("type") == "reject" for decision in decisions
    )


def answered(outdated: Collection[str], snapshot: StateSnapshot) -> AnsweredError:
    is_open = [interrupt.id for interrupt in snapshot.interrupts]
    return AnsweredError(snapshot.config["configurable"]["thread_id"], sorted(outdated), is_open)


def _without(snapshot: StateSnapshot, questions: Collection[str]) -> StateSnapshot:
    """Return a snapshot without these questions."""
    if not questions:
        return snapshot

    def others(interrupts: tuple[Interrupt, ...]) -> tuple[Interrupt, ...]:
        return tuple(interrupt for interrupt in interrupts if interrupt.id not in questions)

    tasks = tuple(task._replace(interrupts=others(task.interrupts)) for task in snapshot.tasks)
    return snapshot._replace(interrupts=others(snapshot.interrupts), tasks=tasks)
