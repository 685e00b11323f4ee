"""Once: an effect happens at most once without a person's word."""

from dataclasses import replace
from threading import Lock
from typing import Any, ClassVar, Final, cast

from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig, run_in_executor
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import override

from skills_agent.graph.threads.locks import ThreadKey
from skills_agent.graph.threads.thread import Thread
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.discover import SUPERSEDED, true_answer
from skills_agent.nodes.effects import Invocation
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.links.again import again
from skills_agent.nodes.links.attempt import Link
from skills_agent.nodes.links.fitted import fitted
from skills_agent.nodes.links.once import once
from skills_agent.nodes.links.recalled import recalled
from skills_agent.nodes.two_paths import Steps
from skills_agent.parts.calls import OneCall, allowed, attempt_at, invocation_here, steps_of, thread_here
from skills_agent.parts.shared import Part, PartState, Request, Response, own_state
from skills_agent.state.call_ids import with_own_ids
from skills_agent.state.records import VerdictRecord
from skills_agent.state.transcript import answered_ids, calls_of, open_calls, repair

LINKS: Final[tuple[Link, ...]] = (recalled, again, once, fitted)

_naming: Final = Lock()
"""Held while calls get their ids: agents that a graph runs side by side have one journal."""
_running: Final[set[tuple[str, ThreadKey, str]]] = set()
"""The calls that go on in this process: the step of the outermost graph, the agent that makes it, its id."""


class Once(Part):
    """The journal: what begins is written down first, and its result is kept.

    A call whose outcome nobody knows, because the process was killed in the middle of it, or its tool raised
    an exception, is a question. The same call that a lost step made again has its result. A tool gets its
    idempotency key by `call_attempt`. Calls of tools that declare `metadata={"risk": "read"}` only read: they
    are not written down.
    """

    kind: ClassVar[str] = "once"

    def __init__(self, **settings: Any) -> None:
        """Take `journal`, `locks`, and `approval` (`ask`, `deny`, `fail`), as `build_graph` does."""
        super().__init__(settings)

    @override
    def before_agent(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a turn: answer the calls that one before left open, and settle what earlier turns did."""
        services, update = self.services(state), super().before_agent(state, runtime) or {}
        thread, invocation = thread_here(services), invocation_here(services)
        if thread is None or invocation is None:
            return update
        if repaired := repair(state["messages"], SUPERSEDED):
            verdicts = {**(state.get("verdicts") or {})}
            for call_id, digest in (state.get("skills_agent_announced") or {}).items():
                record = verdicts.get(call_id) or allowed("", {}, digest)
                verdicts[call_id] = VerdictRecord(**{**record, "announced": True})
            answered = [true_answer(each, OneCall(invocation), verdicts) for each in repaired]
            update["messages"] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *answered]
        _settle(thread, invocation)
        return update or None

    @override
    async def abefore_agent(self, state: PartState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return await run_in_executor(None, self.before_agent, state, runtime)

    @override
    def answered(self, request: Request, response: Response) -> Response | ExtendedModelResponse[Any]:
        """Give each call an id of its own, and write down that it may begin: a lost journal is noticed so."""
        services = self.services(request.state)
        services.know(request.tools)
        if (invocation := invocation_here(services)) is None:
            return response
        messages, announced = request.state["messages"], dict[str, str]()
        judge = Judge.of(services.policy, own_state(request.state), cast("Any", request.runtime))
        with _naming:
            result = response.result
            if len(result) == 1:  # else an answer to one of its calls is there already
                result = [_with_own_ids(result[0], messages, invocation)]
            for call in (call for each in result if isinstance(each, AIMessage) for call in calls_of(each)):
                if services.offered.grammar.spec(call["name"]).risk != "read":
                    call_id, digest = call["id"] or "", judge.digest(judge.call(call["name"], call["args"]))
                    invocation.announce(call_id, call["name"], digest, answered_ids(messages))
                    announced[call_id] = digest
        response = ModelResponse(result, response.structured_response)
        return ExtendedModelResponse(response, Command(update={"skills_agent_announced": announced}))

    @override
    def steps(self, request: ToolCallRequest) -> Steps[Any]:
        services, call_id = self.services(request.state), request.tool_call["id"] or ""
        services.know(request.runtime.tools or ())
        thread, invocation = thread_here(services), invocation_here(services, call_id)
        alive = {call["id"] or "" for call in open_calls(request.state["messages"])} - {call_id}
        if thread is None or services.offered.grammar.spec(request.tool_call["name"]).risk == "read":
            return (yield from steps_of(attempt_at(request, services, None), LINKS, request))
        # What a run that was given up still does is of an earlier step, or of this agent: it is asked about.
        outermost = get_config()["configurable"].get("checkpoint_map", {}).get("", "")
        step = f"{thread.key.thread}@{outermost}"
        alive |= {other for at, agent, other in _running.copy() if at == step and agent != thread.key}
        # Two invocations of one thread must not both find that the call has not begun.
        release = thread.locks.take(ThreadKey(f"{thread.name}, call {call_id}"), Cancellation())
        _running.add((step, thread.key, call_id))
        try:
            return (yield from steps_of(attempt_at(request, services, invocation, alive), LINKS, request))
        finally:
            _running.discard((step, thread.key, call_id))
            release()


def _with_own_ids(reply: BaseMessage, transcript: list[Any], invocation: Invocation) -> Any:
    """Return a reply whose calls have ids that neither the thread nor its journal knows."""
    if not isinstance(reply, AIMessage):
        return reply
    journal, thread = invocation.journal, invocation.thread
    return with_own_ids(reply, transcript, lambda call_id: journal.get(thread, call_id) is not None)


def _settle(thread: Thread, invocation: Invocation) -> None:
    """Settle what was done before the last run ended: the same call is another one from now on.

    What a killed run did is not: nothing was kept after it, and the model may ask for it again in this turn.
    """
    if not invocation.journal.unsettled(invocation.thread):
        return
    ended = _end_of_last_run(thread)
    replace(invocation, has_checkpoint=lambda place: place.rpartition("@")[2] < ended).settle()


def _end_of_last_run(thread: Thread) -> str:
    """Return the id of the last checkpoint that was kept before this run of the outermost graph.

    A run with durability `exit` keeps no checkpoint of its input, and nothing at all before it ends.
    """
    kept = RunnableConfig(configurable={"thread_id": thread.key.thread, "checkpoint_ns": ""})
    if inputs := [*thread.saver.list(kept, filter={"source": "input"}, limit=1)]:
        before = inputs[0].parent_config
        return str(before["configurable"]["checkpoint_id"]) if before else ""
    newest = thread.saver.get_tuple(kept)
    return newest.checkpoint["id"] if newest else ""
