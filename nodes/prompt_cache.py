"""Breakpoints for the prompt cache of Anthropic's models, which keeps nothing without them.

The cache keeps a prompt up to a breakpoint, and finds it again only where the next prompt has it byte for
byte, within 20 blocks before one of its own breakpoints. There may be four.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from skills_agent.nodes.conversation import blocks_of
from skills_agent.state.transcript import is_synthetic

BREAKPOINT: Final = {"cache_control": {"type": "ephemeral"}}


def with_breakpoints(prompt: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a prompt with breakpoints: its system message, and twice in the conversation.

    One is the end. The other one is where the prompt of the step before had its own, so that it is found
    again however many blocks the model's reply and the results of its calls have.
    """
    marked = [_in_blocks(each) for each in prompt]
    replies = [at for at, each in enumerate(prompt) if isinstance(each, AIMessage) and not is_synthetic(each)]
    before_reply = _last_markable(prompt, replies[-1]) if replies else None
    for at in {0, before_reply, _last_markable(prompt, len(prompt))}:
        if at is not None:
            marked[at] = _marked(marked[at])
    return marked


def with_tool_breakpoint(tools: Sequence[BaseTool | dict[str, Any]]) -> list[BaseTool | dict[str, Any]]:
    """Return tools of which the last that can carry it has a breakpoint."""
    marked = list(tools)
    for at in reversed(range(len(marked))):
        tool = marked[at]
        if isinstance(tool, BaseTool):
            marked[at] = tool.model_copy(update={"extras": {**(tool.extras or {}), **BREAKPOINT}})
            break
        if function := tool.get("function"):
            # In Anthropic's own form, which its package passes on as it is.
            named = {"name": function["name"], "description": function["description"]}
            marked[at] = {**named, "input_schema": function["parameters"], **BREAKPOINT}
            break
    return marked


def _marked(message: AnyMessage) -> AnyMessage:
    blocks: Any = message.content
    return message.model_copy(update={"content": [*blocks[:-1], {**blocks[-1], **BREAKPOINT}]})


def _last_markable(prompt: Sequence[AnyMessage], end: int) -> int | None:
    """Return the place of the last message before `end` that can carry a breakpoint: it is not blank."""
    for at in reversed(range(end)):
        if isinstance(prompt[at], HumanMessage | ToolMessage) and prompt[at].content:
            return at
    return None


def _in_blocks(message: AnyMessage) -> AnyMessage:
    """Return a message in the form in which it can carry a breakpoint: a prompt has it in one form always."""
    content: Any = message.content
    if isinstance(message, AIMessage) or not content:
        return message
    return message.model_copy(update={"content": blocks_of(content)})
