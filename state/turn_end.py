"""Where a turn ends and the next one begins: what the thread holds of its answer."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from skills_agent.state.records import active_skills
from skills_agent.state.schema import AgentState, AgentUpdate
from skills_agent.state.transcript import last_ai


def ended(state: AgentState, messages: Sequence[AnyMessage]) -> AgentUpdate:
    """Return the update that ends a turn with the model's last message, or with a tool's result after it.

    The text is one that every saver can keep: PostgreSQL's takes this channel for JSON, which has no NUL, and
    that can be in what a model repeats of a file.
    """
    is_result = bool(messages) and isinstance(messages[-1], ToolMessage)
    message = messages[-1] if is_result else last_ai(messages)
    text = str(message.text).replace("\x00", "") if message else ""
    loaded = sorted(active_skills(state.get("skills_loaded")))
    return AgentUpdate(answer=text, loaded=loaded, changes=_changes(messages))


def _changes(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return what the runs of the turn changed, the first run first."""
    turn = takewhile(lambda message: not isinstance(message, HumanMessage), reversed(messages))
    artifacts = [message.artifact for message in turn if isinstance(message, ToolMessage)]
    kept = [each for each in reversed(artifacts) if isinstance(each, Mapping)]
    return [change for each in kept for change in each.get("changes") or ()]


def is_direct_result(messages: Sequence[AnyMessage], tools: Mapping[str, BaseTool]) -> bool:
    """Return whether the last result is the answer: all of this step come from tools with `return_direct`.

    One that failed is for the model, and so is a step that also called something else.
    """
    results = [*takewhile(lambda each: isinstance(each, ToolMessage), reversed(messages))]
    return bool(results) and all(
        getattr(result, "status", "") == "success"
        and getattr(tools.get(result.name or ""), "return_direct", False)
        for result in results
    )


def next_turn(state: AgentState) -> int:
    """Return the number of the turn that begins: no two have the same.

    `discover` counts it. Where that failed, its message stands uncounted before the new one, and the answer
    of the turn before it has not been emptied.
    """
    usage, newest = state.get("usage"), reversed(state.get("messages") or [])
    asked = sum(1 for _ in takewhile(lambda each: isinstance(each, HumanMessage), newest))
    return (usage["turn"] if usage else 0) + (max(1, asked) if state.get("answer") != "" else 1)
