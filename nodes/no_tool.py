"""Calls that cannot run: of a tool or a skill that is not there, unreadable ones, and repetitions."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from langchain_core.messages import AIMessage, InvalidToolCall, ToolCall
from langchain_core.messages.tool import tool_call

from skills_agent.nodes.prompt import asked_again
from skills_agent.nodes.reply import strict_arguments
from skills_agent.nodes.step import Step
from skills_agent.skills.errors import UnknownSkillError, did_you_mean, list_names
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.policy.patterns import Call
from skills_agent.skills.policy.reasons import Facts
from skills_agent.skills.policy.tool_spec import SHELL_TOOLS
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.text import one_line
from skills_agent.state.budget import MAX_SAME_RESULTS
from skills_agent.state.records import SkillResources
from skills_agent.state.transcript import LOAD_SKILL, same_results


def why_no_tool(step: Step, name: str) -> str:
    """Say why a tool is not there, and what to call instead."""
    policy = step.policy
    tools = sorted({*policy.tools} - policy.hidden(step.context))
    if why := policy.means.why_no_shell() if name in SHELL_TOOLS else policy.means.unreached(name):
        return f"There is no tool {name!r}: {why.rstrip('.')}. Tools: {', '.join(tools)}."
    skills, resources = _loadable(step), step.state.get("skill_resources") or {}
    loaded, spelled = {each: resources.get(each) for each in step.loaded}, _spelled(name)
    if skill := next((each for each in (*loaded, *skills) if each in {name, spelled}), None):
        if skill in loaded:
            # Told that it is no tool, a small real model apologised, or answered that it was about to begin.
            said = f"Nothing ran: {skill} is loaded, and its instructions are above."
            said += " Follow them yourself, with the tools or in your answer."
            return "\n".join([said, *asked_again(step.state.get("messages") or [])])
        call = f"Call the tool {LOAD_SKILL} with name {skill}."
        return f"{skill} is a skill, not a tool. Nothing was done yet. {call}"
    if way := next(_files(name, loaded), None):
        return way
    offered = [*tools, LOAD_SKILL] if skills else tools
    alike = policy.grammar.named(name.lower()).tools & {*offered}
    hint = f"Call {' or '.join(sorted(alike))}." if alike else did_you_mean(name, offered)
    return f"There is no tool {name!r}. {hint or f'Tools: {list_names(tools)}.'}"


def why_unread(step: Step, call: InvalidToolCall) -> str:
    """Say what is wrong with a call whose arguments cannot be read, and how it is made."""
    name = call["name"] or ""
    tool = step.policy.tools.get(name)
    if tool is None and name != LOAD_SKILL:
        return why_no_tool(step, name)
    try:
        strict_arguments(call["args"] or "")
        fault = call["error"] or "they are not whole"
    except ValueError as error:
        fault = str(error)
    schema = step.policy.schema(name)
    fields = schema.model_fields.items() if schema else ()
    needed = [field for field, each in fields if each.is_required()] if tool else ["name"]
    form = json.dumps(dict.fromkeys(needed, "..."))
    return f"Not run: the arguments of {name} cannot be read ({fault}). They are one JSON object: {form}"


def why_unloaded(step: Step, call: Call) -> Facts:
    """Return why a call is refused that is of a skill which is not loaded: no approval could make it run."""
    if call.spec.counts_as is None or not call.skill or call.skill in step.loaded:
        return {}
    loadable = _loadable(step)
    try:
        skill = _catalog(step).find(call.skill, is_told=lambda each: each.name in loadable)
    except UnknownSkillError as error:
        return {"fault": str(error)}
    text = f"Skill {skill.name} is not loaded"
    if skill.name in step.loaded:
        text = f"The loaded skill is named {skill.name}"
    elif skill.name in loadable:
        text += f". Call {LOAD_SKILL} with name {skill.name} first"
    return {"fault": f"{text}."}


def why_absent(step: Step, name: str) -> str:
    """Say why a tool is not there; empty where it is, or somebody left it out."""
    policy, context = step.policy, step.context
    if name not in policy.tools or (name in SHELL_TOOLS and policy.means.why_no_shell()):
        return why_no_tool(step, name)
    if name not in policy.scoped or policy.is_left_out(name, context):
        return ""
    active = [each for each in step.loaded.values() if name in each.get("include_tools", ())]
    brought = any(not policy.skill_refusal(SkillRef.of(each), context) for each in active)
    return "" if context.enable_skills and brought else why_no_tool(step, name)


def repetition(step: Step, call: Call) -> Facts:
    """Return why a call is refused that gave one result again and again, with nothing changed in between."""
    spec_of = step.policy.grammar.spec
    same = same_results(
        step.state.get("messages") or [],
        lambda each: each["name"] == call.tool and step.call(call.tool, each["args"]).args == call.args,
        lambda name: (spec := spec_of(name)).polls or spec.risk != "read",
    )
    return {} if same < MAX_SAME_RESULTS or call.spec.polls else {"repeated": [call.tool, str(same)]}


def _catalog(step: Step) -> Catalog:
    catalog = step.state.get("catalog")
    return step.registry.get(catalog["digest"] if catalog else "") or step.registry.refresh()


def _loadable(step: Step) -> list[str]:
    """Return the names of the skills that the model may load here: a refusal names no other."""
    policy, context = step.policy, step.context
    if not context.enable_skills or policy.is_left_out(LOAD_SKILL, context):
        return []
    catalog = _catalog(step)
    return [each.name for each in catalog.loadable(policy.skills_left_out(catalog, context))]


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
                tool = "run_script" if file["type"] == "script" else "read_resource"
                shown = one_line(file["path"])
                yield f"{shown} is a file of the skill {skill}: call {tool} with this skill and this path."
