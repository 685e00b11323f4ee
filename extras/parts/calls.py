"""A tool call of another agent, as the links of our own graph see it, and its way through them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import override

from skills_agent.graph.langgraph_inside import asked_again, is_coroutine, skip_answers
from skills_agent.graph.serialisation import stored_size
from skills_agent.graph.threads.thread import Thread
from skills_agent.nodes.approve import approve
from skills_agent.nodes.cancellation import Cancellation
from skills_agent.nodes.effects import Invocation, tool_messages
from skills_agent.nodes.invocations import Invocations
from skills_agent.nodes.judge import Judge
from skills_agent.nodes.links.attempt import Acting, Attempt, Link, NotRun, Rest
from skills_agent.nodes.policy import Policy
from skills_agent.nodes.two_paths import Steps, Waiting
from skills_agent.parts.shared import PartServices, Unrecorded, own_state
from skills_agent.skills.policy.verdict import AnswerRefusedError
from skills_agent.state.call_attempt import RUNNING_CALL, CallAttempt, RunningCall
from skills_agent.state.context import Context
from skills_agent.state.records import VerdictRecord
from skills_agent.state.schema import AgentState, AgentUpdate, CallRequest

_ELSEWHERE: Final = ToolNode([])
"""Stands for what runs the tools: the handler of a middleware does."""


class OneCall(Invocations):
    """The invocations as one hook sees them: that of its thread."""

    def __init__(self, invocation: Invocation | None, alive: Collection[str] = ()) -> None:
        """Take the calls that go on beside it, too: the id of an invocation is that of its call here."""
        super().__init__()
        self._invocation, self._alive = invocation, frozenset(alive)

    @property
    @override
    def alive(self) -> frozenset[str]:
        return self._alive

    @override
    def current(self) -> Invocation | None:
        return self._invocation


def thread_here(services: PartServices) -> Thread | None:
    """Return the thread that the calling hook runs for; None where no checkpointer keeps it."""
    config = get_config()
    own = {**config["configurable"], "checkpoint_ns": _namespace(config)}
    return Thread.of(None, RunnableConfig(configurable=own), services.threads)


def _namespace(config: RunnableConfig) -> str:
    """Return the namespace of the agent: that of a task is that of its graph, and the name of the task."""
    return str(config["configurable"].get("checkpoint_ns") or "").rpartition("|")[0]


def invocation_here(services: PartServices, call_id: str = "") -> Invocation | None:
    """Return what the calling hook knows of its thread and its journal; None where none is kept."""
    thread = thread_here(services)
    if thread is None:
        return None
    return replace(thread.invocation(call_id, Cancellation()), has_checkpoint=partial(_is_kept, thread))


def _is_kept(thread: Thread, place: str) -> bool:
    """Return whether a checkpoint is kept: of this agent, or of a run of it in another task."""
    namespace, _, checkpoint = place.rpartition("@")
    return replace(thread, key=thread.key._replace(namespace=namespace)).has_checkpoint(checkpoint)


def attempt_at(
    request: ToolCallRequest,
    services: PartServices,
    invocation: Invocation | None,
    alive: Collection[str] = (),
) -> Attempt:
    """Return the attempt at a call; where no part of the agent judges calls, it is allowed.

    `alive` are the ids of calls that go on beside it.
    """
    call, state, runtime = request.tool_call, own_state(request.state), request.runtime
    acting = Acting(
        tools=_ELSEWHERE,
        is_coroutine=is_coroutine,
        policy=services.policy,
        limits=services.settings,
        running=OneCall(invocation, alive),
        host_tools=(),
        stored_size=partial(stored_size, allowed=services.threads.allowed_types),
        observer=Unrecorded(),
        state_now=lambda: state,
        skip_answers=skip_answers,
    )
    judge = Judge.of(services.policy, state, cast("Runtime[Context]", runtime))  # it has what is read of one
    call_id, verdicts = call["id"] or "", state.get("verdicts") or {}
    record = verdicts.get(call_id)
    if record is None:
        record = allowed(call["name"], call["args"], judge.digest(judge.call(call["name"], call["args"])))
    if call_id in (request.state.get("skills_agent_announced") or {}):
        record = VerdictRecord(**{**record, "announced": True})
    state["verdicts"] = {**verdicts, call_id: record}
    info = runtime.execution_info
    place = f"{_namespace(get_config())}@{info.checkpoint_id}" if info else ""
    return Attempt(
        acting, CallRequest(call=call, approved=record.get("digest", "")), state, judge, place.lstrip("@")
    )


def allowed(tool: str, args: dict[str, Any], digest: str) -> VerdictRecord:
    """Return the verdict on a call that no part judges."""
    return VerdictRecord(tool=tool, args=args, decision="allow", reason="", by="policy", digest=digest)


def approved(state: AgentState, runtime: Runtime[Any], policy: Policy) -> AgentUpdate:
    """Ask a person about calls; an answer that does not fit is asked for again, under the same question."""
    try:
        return approve(state, runtime, policy=policy)
    except AnswerRefusedError as error:
        raise asked_again(error.question, error.answer_schema) from error


def handed_on(request: ToolCallRequest) -> Steps[Any]:
    """Have the handler of the middleware run a call; return what it returned."""
    return (yield Waiting(_ELSEWHERE, request))


def steps_of(attempt: Attempt, links: Sequence[Link], request: ToolCallRequest) -> Steps[Any]:
    """Take a call through links; yield the request that is to be run, and return what becomes of it.

    A person's answer that does not fit is asked for again, under the same question.
    """
    chain: Rest = reduce(lambda rest, link: partial(link, rest=rest), reversed(links), partial(_run, request))
    try:
        produced = yield from chain(attempt)
    except NotRun as refused:
        return next(iter(refused.messages), None)
    except AnswerRefusedError as error:
        raise asked_again(error.question, error.answer_schema) from error
    parts = produced if isinstance(produced, list) else [produced]
    results = [
        each for part in parts for each in ([part] if isinstance(part, Command) else tool_messages(part))
    ]
    return results[0] if len(results) == 1 else results


def _run(request: ToolCallRequest, attempt: Attempt) -> Steps[Any]:
    entry, name = attempt.entry, attempt.name
    named = CallAttempt(entry.key, entry.attempt) if entry else CallAttempt(attempt.new_key(), 1)
    running = RunningCall(named, entry and entry.attempt_key, [], attempt.is_resumed)
    config = request.runtime.config
    configurable = {**config.get("configurable", {}), RUNNING_CALL: running}
    runtime = replace(request.runtime, config=RunnableConfig(**{**config, "configurable": configurable}))
    is_other = name != request.tool_call["name"]  # by a person's edit
    tool = attempt.at.policy.tools.get(name) if is_other else request.tool
    result = yield from handed_on(replace(request, tool_call=attempt.call, tool=tool, runtime=runtime))
    parts = result if isinstance(result, list) else [result]
    return [each if isinstance(each, Command) else {"messages": [each]} for each in parts]
