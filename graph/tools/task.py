"""The tool that gives a task to a subagent of the host. The node `fork` carries it out, and no tool does."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import create_model

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.skills.errors import list_names
from skills_agent.state.forks import TASK, Subagent

_DESCRIPTION: Final = """\
Give a task to another agent, which works on it alone and returns its result. It knows nothing of this
conversation: say in the task all that it needs. Several in one message are done at the same time. Agents:"""


def task_tools(subagents: Sequence[Subagent], settings: Settings, *, has_own_model: bool) -> list[BaseTool]:
    """Return the tool for these subagents. Raises SettingsError for what cannot be one."""
    faults = (_fault(each, settings, has_own_model=has_own_model) for each in subagents)
    if fault := next(filter(None, faults), ""):
        raise SettingsError(fault)
    names = tuple(each.name for each in subagents)
    if len({*names}) < len(names):
        raise SettingsError(f"Two subagents are named alike: {list_names(names)}.")
    fields: dict[str, Any] = {"agent": (Literal[names], ...), "task": (str, ...)}
    lines = [_DESCRIPTION, *(f"- {each.name}: {each.description}" for each in subagents)]
    return [
        StructuredTool(
            name=TASK,
            description="\n".join(lines),
            args_schema=create_model("TaskArguments", **fields),
            metadata={"risk": "read"},
        )
    ]


def _fault(each: Subagent, settings: Settings, *, has_own_model: bool) -> str:
    """Return what is wrong with a subagent; empty for nothing."""
    if not isinstance(each, Subagent) or not (each.name.strip() and each.description.strip()):
        return 'A subagent is Subagent(name="...", description="..."): the model chooses by both.'
    who = f"The subagent {each.name}"
    if each.skills is not None and each.skills not in settings.skill_sets:
        return (
            f"{who} has no skill set {each.skills!r} here. There are: {list_names([*settings.skill_sets])}."
        )
    if each.model and has_own_model:
        return f"{who} has no model of its own where the agent's is an object."
    if each.model and not any(fnmatchcase(each.model, pattern) for pattern in settings.allowed_models):
        return f"{who} may not have the model {each.model!r}: add it to `allowed_models`."
    return ""
