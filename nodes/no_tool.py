"""What a model means that calls a tool which is not there: a skill, a file of one, another tool."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import PurePosixPath

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
from langchain_core.messages.tool import tool_call

from skills_agent.skills.policy.patterns import Grammar
from skills_agent.skills.text import one_line
from skills_agent.state.records import SkillResources
from skills_agent.state.transcript import LOAD_SKILL


def instead_of(
    name: str,
    skills: Collection[str],
    loaded: Mapping[str, SkillResources | None],
    tools: Collection[str],
    grammar: Grammar,
) -> str:
    """Say what to call in place of a tool that is not there; empty where nothing is near it.

    `skills` may be loaded, `loaded` are with their files, and `tools` are offered.
    """
    spelled = _spelled(name)
    if skill := next((each for each in (*loaded, *skills) if each in {name, spelled}), None):
        if skill in loaded:
            return f"{skill} is a skill, not a tool, and it is loaded. Do what its instructions say."
        call = f"Call the tool {LOAD_SKILL} with name {skill}."
        return f"{skill} is a skill, not a tool. Nothing was done yet. {call}"
    if way := next(_files(name, loaded), None):
        return way
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name needs it

    alike = grammar.named(name.lower()).tools & {*tools}
    near = sorted(alike) or get_close_matches(name, tools, n=1)
    return f"There is no tool {name!r}: call {' or '.join(near)}." if near else ""


def as_loads(reply: AIMessage, is_tool: Callable[[str], bool], is_skill: Callable[[str], bool]) -> AIMessage:
    """Return a reply in which a call of a skill, as if it were a tool, is a call of load_skill.

    Small models call skills so, and some do no more than repeat what they are told of it. `is_skill` tells
    names of those that may be loaded, and are not. A reply in blocks stays: its provider may have signed it.
    """

    def meant(call: ToolCall | InvalidToolCall) -> ToolCall | None:
        names = (call["name"] or "", _spelled(call["name"] or ""))
        skill = None if is_tool(names[0]) else next(filter(is_skill, names), None)
        return tool_call(name=LOAD_SKILL, args={"name": skill}, id=call["id"]) if skill else None

    if not isinstance(reply.content, str):
        return reply
    unread = [each for each in reply.invalid_tool_calls if not meant(each)]
    loads = [load for each in reply.invalid_tool_calls if (load := meant(each))]
    calls = [*(meant(each) or each for each in reply.tool_calls), *loads]
    if calls == reply.tool_calls:
        return reply
    return reply.model_copy(update={"tool_calls": calls, "invalid_tool_calls": unread})


def _spelled(name: str) -> str:
    """Return a name as skills are named: `Brand Colors` and `brand_colors` are brand-colors."""
    return re.sub(r"[\s_.]+", "-", name.lower())


def _files(name: str, loaded: Mapping[str, SkillResources | None]) -> Iterator[str]:
    for skill, resources in loaded.items():
        for file in resources["files"] if resources else ():
            path = PurePosixPath(file["path"])
            if name in {str(path), path.name, path.stem}:
                tool, shown = (
                    "run_script" if file["type"] == "script" else "read_resource",
                    one_line(file["path"]),
                )
                yield f"{shown} is a file of the skill {skill}: call {tool} with this skill and this path."
