"""Names of other clients' tools in the instructions of a skill: what each is here, said once at a load."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from skills_agent.skills.policy.tool_spec import ToolSpec

_COMMON: Final = ("Read", "Write", "Edit", "Bash", "Glob", "Grep", "Task", "Agent", "Skill", "LS")
"""Names that are also English words, or nearly: they count in code, before `(`, or beside the word tool."""
_OWN: Final = (
    *("MultiEdit", "NotebookEdit", "TodoWrite", "TodoRead", "AskUserQuestion", "WebFetch", "WebSearch"),
    *("ExitPlanMode", "BashOutput", "KillShell", "KillBash", "TaskCreate", "TaskUpdate", "TaskList"),
)
_NAME: Final = "|".join(_COMMON)
_USED: Final = re.compile(
    rf"`(?P<code>{_NAME})(?:\([^`]*\))?`|\b(?P<call>{_NAME})\((?=[^)\s])"
    rf"|\b(?P<tool>{_NAME}) tools?\b|\btools?:? +(?P<after>{_NAME})\b"
    rf"|\b(?P<own>{'|'.join(_OWN)})\b|\b(?P<mcp>mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*__[\w-]+)\b"
)
_SERVER: Final = re.compile(r"^(mcp__.+?__).*")
_SAME: Final[Mapping[str, str]] = {
    "Task": "do that part yourself",
    "Agent": "do that part yourself",
    "TodoRead": "the plan stands in the status",
    "ExitPlanMode": "say your plan",
    **dict.fromkeys(("TaskCreate", "TaskUpdate", "TaskList"), "update_plan"),
    **dict.fromkeys(("KillShell", "KillBash"), "stop_command"),
    "BashOutput": "command_output",
}
"""What there is in place of a tool that none here is like."""
MAX_NAMED: Final = 12


def names_used(instructions: str) -> list[str]:
    """Return the names of other clients' tools that instructions use, each once, in order."""
    return list(dict.fromkeys(match[match.lastgroup or 0] for match in _USED.finditer(instructions)))


def names_here(names: Iterable[str], specs: Iterable[ToolSpec], offered: Collection[str]) -> str:
    """Say what tools of other clients are here: `Bash: run_command; WebSearch: not here`; empty for none."""
    told = list(_told(names, [spec for spec in specs if spec.name in offered], offered))
    return "; ".join(told[:MAX_NAMED])


def _told(names: Iterable[str], specs: list[ToolSpec], offered: Collection[str]) -> Iterator[str]:
    missing = (name for name in names if name not in offered)
    for name in dict.fromkeys(_SERVER.sub(r"\1*", name) for name in missing):
        here = [spec.name for spec in specs if name.lower() in spec.names_elsewhere]
        other = _SAME.get(name, "")
        if other.isidentifier() and other not in offered and "_" in other:
            other = ""
        yield f"{name}: {' or '.join(here[:3]) or other or 'not here'}"
