"""A host's tools for skills: models are offered each only while a skill is loaded that names it.

The list of tools, which a provider caches, stays the same. It has `call_tool`, and the schema of what a skill
brings stands behind the skill's instructions. Whoever judges, asks, runs or records a call knows the tool
itself.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from skills_agent.nodes.reply import strict_arguments
from skills_agent.skills.policy.tool_spec import CALL_TOOL
from skills_agent.skills.text import escape_markup
from skills_agent.state.records import LoadedSkill


@dataclass(frozen=True)
class ScopedTools:
    """The tools for skills, by name."""

    tools: Mapping[str, BaseTool]

    def text_of(self, skill: LoadedSkill) -> str:
        """Return what a model reads of the tools of a loaded skill; empty where it has none here."""
        schemas = [self._schemas[name] for name in skill.get("include_tools", ()) if name in self._schemas]
        name = escape_markup(skill["name"])
        lines = [f'<skill_tools name="{name}" call_with="{CALL_TOOL}">', *schemas, "</skill_tools>"]
        return "\n".join(lines) if schemas else ""

    @cached_property
    def _schemas(self) -> Mapping[str, str]:
        told = {name: convert_to_openai_tool(tool)["function"] for name, tool in self.tools.items()}
        # A description may be a server's: it cannot close the element that it stands in.
        return {
            name: json.dumps(schema, ensure_ascii=False).replace("<", r"\u003c")
            for name, schema in told.items()
        }

    def as_meant(self, reply: AIMessage) -> AIMessage:
        """Return a reply in which a call by `call_tool` is one of the tool itself.

        What a provider wrote of the call in blocks of content stays: `as_called` says the same of it.
        """
        calls = [_meant(call) if call["name"] == CALL_TOOL else call for call in reply.tool_calls]
        return reply if calls == reply.tool_calls else reply.model_copy(update={"tool_calls": calls})

    def as_called(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return a transcript in which these tools are called by `call_tool`, as the model is to do it."""
        return [self._as_called(message) for message in messages]

    def _as_called(self, message: AnyMessage) -> AnyMessage:
        if isinstance(message, ToolMessage) and message.name in self.tools:
            return message.model_copy(update={"name": CALL_TOOL})
        if isinstance(message, AIMessage) and any(call["name"] in self.tools for call in message.tool_calls):
            calls = [_called(call) if call["name"] in self.tools else call for call in message.tool_calls]
            return message.model_copy(update={"tool_calls": calls})
        return message


def _meant(call: ToolCall) -> ToolCall:
    """Return the call that a call of `call_tool` stands for; itself where it cannot be read as one."""
    match call["args"]:
        case {"name": str(name), "arguments": dict(arguments)}:
            return tool_call(name=name, args=arguments, id=call["id"])
        case {"name": str(name), "arguments": str(text)}:
            with suppress(ValueError):
                return tool_call(name=name, args=strict_arguments(text), id=call["id"])
        case {"name": str(name), **rest} if not rest:
            return tool_call(name=name, args={}, id=call["id"])
    return call


def _called(call: ToolCall) -> ToolCall:
    return tool_call(name=CALL_TOOL, args={"name": call["name"], "arguments": call["args"]}, id=call["id"])
