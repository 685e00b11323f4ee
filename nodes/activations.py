"""Activations of loaded skills, and the calls that the agent makes of commands and files in their texts.

Nothing here runs anything: gate, approval, journal and sandbox are those of any call.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall, tool_call

from skills_agent.nodes.policy import Policy
from skills_agent.skills.format.dynamic import DynamicCommand, command_with, dynamic_commands, named_files
from skills_agent.skills.policy.tool_spec import READ_RESOURCE, RUN_COMMAND
from skills_agent.skills.text import count
from skills_agent.state.call_ids import derived_id
from skills_agent.state.context import Context
from skills_agent.state.records import LoadedSkill, SkillResources
from skills_agent.state.transcript import LOAD_SKILL, calls_in, is_receipt

MAX_COMMANDS: Final = 8
"""Of one activation, that are called."""
MAX_FILES: Final = 5
MAX_FILES_SIZE: Final = 20_000
"""Bytes of the files that are read of one load, together; what does not fit is left to the model."""
_TEXTS: Final = (".md", ".txt", ".json", ".yaml", ".yml", ".toml", ".csv")
CALLED: Final = "[run for you: its result is below]"
"""Stands behind a command that was called."""


class Activation(NamedTuple):
    """What gave a loaded skill its arguments."""

    skill: LoadedSkill
    call_id: str
    arguments: str | None = None
    """None: the newest."""
    called: Collection[str | None] = ()
    """Ids of the thread's calls of commands."""

    def commands(self) -> dict[str, DynamicCommand]:
        """Return the commands in the skill's text by the ids of their calls, which depend on nothing else."""
        found = enumerate(dynamic_commands(self.skill["instructions"]))
        return {derived_id(self.call_id, self.skill["name"], number): each for number, each in found}

    def text(self) -> str:
        """Return the skill's instructions; commands that were called stand in it as code."""
        written, parts, end = self.skill["instructions"], list[str](), 0
        for call_id, each in self.commands().items():
            if call_id in self.called:
                code = written[each.start : each.end].replace("!", "", 1)
                parts += [written[end : each.start], code, "\n" if "\n" in code else " ", CALLED]
                end = each.end
        return "".join([*parts, written[end:]])


def activations(messages: Sequence[AnyMessage], active: Mapping[str, LoadedSkill]) -> list[Activation]:
    """Return the activations of the loaded skills in the order of the loads; of each, the load comes first.

    A receipt is a part of it: a call that was refused activated nothing. What stands before the call that
    loaded a skill is of an earlier load. Where a skill is loaded anew, the newest arguments hold (None).
    """
    results = (message for message in messages if isinstance(message, ToolMessage))
    receipts = {result.tool_call_id for result in results if is_receipt(result)}
    skills = sorted(active.values(), key=lambda each: each["order"])
    given: dict[str, dict[str, str | None]] = {each["name"]: {each["call_id"]: None} for each in skills}
    called = set[str | None]()
    for call in calls_in(messages):
        if call["name"] == RUN_COMMAND:
            called.add(call["id"])
        if call["name"] != LOAD_SKILL or call["id"] not in receipts:
            continue
        for skill in skills:
            if skill["call_id"] == call["id"]:
                given[skill["name"]] = {skill["call_id"]: None}
        name = str(call["args"].get("name")).partition("@")[0]
        words = None if "digest" in call["args"] else str(call["args"].get("arguments") or "")
        given.setdefault(name, {})[call["id"] or ""] = words
    return [Activation(skill, *each, called) for skill in skills for each in given[skill["name"]].items()]


def command_calls(activated: Activation, policy: Policy, context: Context) -> list[ToolCall]:
    """Return the calls of the commands in the text of an activated skill; none where none may be run."""
    skill, commands = activated.skill, activated.commands()
    if not commands or _why_text(skill, policy, context):
        return []
    given = skill.get("arguments", "") if activated.arguments is None else activated.arguments
    names = skill.get("argument_names", ())
    # What was loaded is there, and nobody can have changed it since.
    folder = f"{Path(skill['path']).parent}/"
    calls = list[ToolCall]()
    for call_id, each in commands.items():
        command = command_with(each.command.replace(folder, "$SKILL_DIR/"), given, names)
        if command is not None:
            args = {"command": command, "skill": skill["name"]}
            calls.append(tool_call(name=RUN_COMMAND, args=args, id=call_id))
    return calls[:MAX_COMMANDS]


def file_calls(
    activated: Activation, resources: SkillResources | None, policy: Policy, context: Context
) -> list[ToolCall]:
    """Return the calls that read the short texts which a skill names behind @: only when it is loaded."""
    skill, calls, room = activated.skill, list[ToolCall](), MAX_FILES_SIZE
    named = named_files(skill["instructions"]) if activated.call_id == skill["call_id"] else []
    if not named or not _is_offered(READ_RESOURCE, policy, context):
        return []
    files = {file["path"]: file for file in resources["files"]} if resources else {}
    for path in named:
        file = files.get(path)
        if file and path.endswith(_TEXTS) and file["size"] <= room and len(calls) < MAX_FILES:
            room -= file["size"]
            args = {"skill": skill["name"], "path": path}
            call_id = derived_id(activated.call_id, skill["name"], path)
            calls.append(tool_call(name=READ_RESOURCE, args=args, id=call_id))
    return calls


def _is_offered(tool: str, policy: Policy, context: Context) -> bool:
    return tool in policy.tools and tool not in policy.hidden(context)


def _why_text(skill: LoadedSkill, policy: Policy, context: Context) -> str:
    """Return why no command in the text of a skill is run: those of a remote place or a server never are."""
    if not _is_offered(RUN_COMMAND, policy, context):
        return policy.means.why_no_shell() or f"{RUN_COMMAND} is left out"
    if not Path(skill["path"]).is_absolute():
        return "its source is not on this machine"
    return "" if policy.dynamic_context else "the setting dynamic_context is off"


def left_as_text(activated: Activation, policy: Policy, context: Context) -> list[str]:
    """Say in a sentence which commands of an activated skill stay text, and why; none where none does."""
    commands = activated.commands()
    left = len(commands) - len(command_calls(activated, policy, context)) if commands else 0
    if not left:
        return []
    why = _why_text(activated.skill, policy, context)
    why = why or f"over {MAX_COMMANDS}, or with arguments that a shell could read as more"
    advice = " Run what you need of it yourself." if _is_offered(RUN_COMMAND, policy, context) else ""
    return [f"Left as text in {activated.skill['name']}: {count(left, 'command')} ({why}).{advice}"]
