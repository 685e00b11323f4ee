"""act: one tool call, through a chain of links."""

from collections.abc import Awaitable, Callable
from functools import partial, reduce
from typing import Any, Final

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from skills_agent.nodes.judge import Judge
from skills_agent.nodes.links.again import again
from skills_agent.nodes.links.attempt import Acting, Attempt, Link, NotRun, Outputs, Rest
from skills_agent.nodes.links.counted import counted
from skills_agent.nodes.links.fitted import fitted
from skills_agent.nodes.links.hooked import hooked
from skills_agent.nodes.links.judged import judged
from skills_agent.nodes.links.on_record import on_record
from skills_agent.nodes.links.once import once
from skills_agent.nodes.links.recalled import recalled
from skills_agent.nodes.two_paths import Steps, Waiting
from skills_agent.state.call_attempt import RUNNING_CALL, CallAttempt, RunningCall
from skills_agent.state.context import Context
from skills_agent.state.schema import AgentUpdate, CallRequest

LINKS: Final[tuple[Link, ...]] = (on_record, counted, recalled, judged, again, hooked, once, fitted)
"""What a call goes through before its tool runs, and back."""


def act(request: CallRequest, runtime: Runtime[Context], *, at: Acting) -> Steps[Outputs]:
    """Run one allowed call through LangGraph's ToolNode.

    It waits for tools because some exist only as coroutines, as those of MCP servers do. A tool that fails
    becomes a tool message of status error. Raises ApprovalNeededError, and SkillsAgentError
    for a call that still runs.
    """
    state, info = at.state_now(), runtime.execution_info
    judge = Judge.of(at.policy, state, runtime)
    hooks = at.policy.hooks(state, request["call"]["id"] or "")
    attempt = Attempt(at, request, state, judge, info.checkpoint_id if info else "", hooks)
    links = (link for link in reversed(LINKS) if hooks or link is not hooked)
    chain: Rest = reduce(lambda rest, link: partial(link, rest=rest), links, _run)
    try:
        outputs: Outputs = yield from chain(attempt)
    except NotRun as refused:
        outputs = [Command(update=AgentUpdate(messages=refused.messages))]
    return [*outputs, Command(update=AgentUpdate(usage=hooks.usage))] if hooks else outputs


def _run(attempt: Attempt) -> Steps[Any]:
    """Have the ToolNode run the tool."""
    entry, replies = attempt.entry, list[Any]()
    named = CallAttempt(entry.key, entry.attempt) if entry else CallAttempt(attempt.new_key(), 1)
    config = get_config()
    own = {RUNNING_CALL: RunningCall(named, entry and entry.attempt_key, replies, attempt.is_resumed)}
    changed = {
        "configurable": {**config.get("configurable", {}), **own},
        "metadata": {**config.get("metadata", {}), **attempt.told},
    }
    arguments = {"config": RunnableConfig(**{**config, **changed})}  # type: ignore[typeddict-item]
    tool, kept = attempt.at.policy.tools.get(attempt.name), partial(_produced, replies)
    is_awaited = tool is not None and attempt.at.is_coroutine(tool)
    return (yield Waiting(attempt.at.tools, [attempt.call], arguments, not is_awaited, kept))


def _produced(replies: list[Any]) -> Outputs | None:
    parts = [part for reply in replies for part in (reply if isinstance(reply, list) else [reply])]
    return [AgentUpdate(messages=[part]) if isinstance(part, ToolMessage) else part for part in parts] or None


async def keep_reply(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
    """Keep what a coroutine returned: where it is cancelled and returns all the same, asyncio drops that."""
    reply = await execute(request)
    if running := request.runtime.config.get("configurable", {}).get(RUNNING_CALL):
        running.replies.append(reply)
    return reply
