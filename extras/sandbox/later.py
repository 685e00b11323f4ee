"""Settle changes later."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Interrupt

from skills_agent.graph.audit.events import event, line_of
from skills_agent.graph.cli.thread import OpenThread
from skills_agent.graph.tools.execution import output_of
from skills_agent.graph.tools.held import can_approve_changes, decide, question_about
from skills_agent.nodes.interrupts import Approve, Reject, make_question
from skills_agent.skills.policy.verdict import AnswerRefusedError


def ask(thread: OpenThread) -> None:
    """Make open questions of what waits, which no node of the graph asks: `settle` takes the answers."""
    questions = []
    for each in thread.snapshot.values.get("held") or ():
        if run := thread.services.policy.held(each["key"]):
            about = question_about(run, each["tool"])
            questions.append(Interrupt(make_question([about], fixed=[each["tool"]]), id=each["key"]))
    thread.snapshot = thread.snapshot._replace(interrupts=tuple(questions))


def settle(thread: OpenThread, answers: Mapping[str, Any]) -> None:
    """Do what a person decided about what waits, by its key, and keep that in the thread.

    Raises AnswerRefusedError, before anything is done; also as `OwnRunner.settle`: what could not be done
    waits on.
    """
    runner: Any = thread.services.runner  # of this project: no other holds changes
    asked = {question.id: question.value for question in thread.interrupts}
    decisions = {key: _decision(asked[key], answer["decisions"][0]) for key, answer in answers.items()}
    try:
        for key, decision in decisions.items():
            decide(runner, key, decision)
    finally:
        thread.snapshot = thread.agent.get_state(thread.config)
        keep_decided(thread)


def _decision(question: Mapping[str, Any], given: Any) -> Approve | Reject:
    match given:
        case {"type": "approve", **more} if not more and can_approve_changes(question):
            return Approve(type="approve")
        case {"type": "reject", **more} if more.keys() <= {"message"}:
            return Reject(type="reject", message=str(more.get("message", "")))
    raise AnswerRefusedError("what waits is approved, if shown whole, or rejected: no more", question, {})


def keep_decided(thread: OpenThread) -> None:
    """Put what was decided about changes into the thread: their calls have the results that they have now.

    The agent may have been killed between the decision and this. What is held no more is not said to wait.
    """
    held, values = thread.snapshot.values.get("held") or (), thread.snapshot.values
    runs = {each["call_id"]: thread.services.policy.held(each["key"]) for each in held}
    waiting = [each for each in held if (run := runs[each["call_id"]]) and not run.is_settled]
    if thread.status != "done" or waiting == held:
        return
    messages: list[BaseMessage] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *values["messages"]]
    for at, message in enumerate(messages):
        call_id = message.tool_call_id if isinstance(message, ToolMessage) else ""
        if (run := runs.get(call_id)) and run.is_settled:
            content, outcome = output_of(run.result, None)
            failed = outcome["exit_code"] != 0
            new = {"content": content, "artifact": outcome, "status": "error" if failed else "success"}
            messages[at] = message.model_copy(update={**new, "id": f"settled-{call_id}"})  # no refusal now
            facts = {**outcome, "call_id": call_id, "tool": message.name, "bytes": len(content.encode())}
            ended = event("call_ended", facts, status="failed" if failed else "ok")
            thread.agent.services.audit.record_outside(thread.name, ended, values["usage"]["turn"])
            thread.progress.say("resume", line_of(ended))
    thread.agent.update_own_state(thread.config, {"messages": messages, "held": waiting}, as_node="answer")
    thread.snapshot = thread.agent.get_state(thread.config)
