"""What a tool is, said once: policy, the nodes and the audit read it here.

The agent's own tools are in the table below, which `allowed-tools` is checked with before any tool is made.
A host's tool brings its own spec: `tool.metadata = {"spec": ToolSpec(...)}`.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from skills_agent.skills.risk import Risk

Look = Callable[[Mapping[str, Any], str], str | None]
"""Says, by the arguments and the idempotency key of a call, what came of it; None where it did nothing."""
Recovery = Literal["ask", "retry", "by key"] | Look
"""`ask` a person; `retry`: a second attempt does nothing that the first has done; `by key`: the receiver
knows the key of the first one; or look whether it took place, and run it where it did not."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The nature of one tool."""

    name: str
    risk: Risk = "network"
    """The worst that a person can approve is assumed of a tool that says nothing."""
    framework: bool = False
    """The tool makes skills and plans work: no skill's `allowed-tools` shuts it out."""
    needs_skills: bool = False
    """The tool is not offered where there are no skills."""
    skill_argument: str | None = None
    """The argument that names a loaded skill."""
    path_argument: str | None = None
    """The argument that is a path: in the skill's folder if the call names a skill, else in the workspace."""
    default_path: str | None = None
    """The path of a call that gives none."""
    command_argument: str | None = None
    """The argument that is a command."""
    url_argument: str | None = None
    """The argument that is a URL: patterns speak of its host."""
    network_argument: str | None = None
    """The argument that lists the hosts which the network is opened to."""
    counts_as: Literal["script", "command", "resource", "fork"] | None = None
    """What the agent itself does for a call. A script counts for `max_script_runs`."""
    always_asks: bool = False
    """A person is asked about every call: nothing that was said in advance answers, and no rule of a host."""
    recovery: Recovery = "ask"
    """What becomes of a call that was cut off, and of which nobody knows whether it did its work."""
    polls: bool = False
    """A call looks at what goes on by itself: the same call again may find something else."""
    names_elsewhere: tuple[str, ...] = ()
    """What `allowed-tools` of other clients call the tool, in lower case."""
    view: Callable[[Mapping[str, Any]], str] | None = None
    """How a person is shown a call; by default its name and arguments."""

    def show(self, args: Mapping[str, Any]) -> str:
        """Return a call as a person reads it: `run_script(skill=csv-report, path=scripts/report.py)`."""
        if self.view is not None:
            return self.view(args)
        first = (self.skill_argument, self.path_argument, self.command_argument, self.url_argument)
        named = sorted(args.items(), key=lambda each: each[0] not in first)
        return f"{self.name}({', '.join(f'{name}={argument_text(value)}' for name, value in named)})"


def argument_text(value: Any) -> str:
    """Return an argument as a person reads it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


RUN_COMMAND: Final = "run_command"
READ_RESOURCE: Final = "read_resource"
PROPOSE_SKILL: Final = "propose_skill"
FETCH_URL: Final = "fetch_url"
CALL_TOOL: Final = "call_tool"
"""What models call the tools of a skill by: the agent takes such a call for one of the tool itself."""
OF_BACKGROUND: Final = frozenset({"command_output", "stop_command"})
"""Tools for commands in the background."""
SHELL_TOOLS: Final = OF_BACKGROUND | {RUN_COMMAND}
"""Tools that are offered only where there is a shell."""
_SHELL: Final = (
    "bash", "shell", "terminal", "execute", "exec_command", "run_shell_command", "run_terminal_cmd",
    "run_in_terminal",
)  # fmt: skip
_READ: Final = ("read", "view", "readfile", "read_many_files")
_FOLDER: Final = ("glob", "ls", "list", "list_directory")
_WRITE: Final = ("write", "edit", "multiedit", "replace", "apply_patch")
_FETCH: Final = ("webfetch", "web_fetch")

_OWN: Final = (
    ToolSpec(
        name="load_skill", risk="read", framework=True, needs_skills=True, path_argument="name",
        names_elsewhere=("skill",),
        view=lambda args: f"load_skill {args.get('name')}",
    ),
    ToolSpec(name="unload_skill", risk="read", framework=True, needs_skills=True),
    ToolSpec(name="search_skills", risk="read", framework=True, needs_skills=True),
    ToolSpec(name=CALL_TOOL, risk="read", framework=True),
    ToolSpec(
        name=READ_RESOURCE, risk="read", framework=True, needs_skills=True, counts_as="resource",
        skill_argument="skill", path_argument="path", names_elsewhere=_READ,
    ),
    # A script of a skill is a command, too: `Bash` speaks of both.
    ToolSpec(
        name="run_script", risk="run", needs_skills=True, counts_as="script",
        skill_argument="skill", path_argument="path", network_argument="network", names_elsewhere=_SHELL,
    ),
    ToolSpec(
        name=RUN_COMMAND, risk="run", counts_as="command",
        skill_argument="skill", command_argument="command", network_argument="network",
        names_elsewhere=_SHELL,
    ),
    # They reach the commands of this run alone, which were allowed when they were started.
    ToolSpec(
        name="command_output", risk="read", framework=True, polls=True,
        names_elsewhere=("bashoutput", "taskoutput"),
    ),
    ToolSpec(
        name="stop_command", risk="read", framework=True, polls=True,
        names_elsewhere=("killshell", "killbash", "taskstop"),
    ),
    ToolSpec(
        name="update_plan", risk="read", framework=True, names_elsewhere=("todowrite", "write_todos")
    ),
    # What the subagent calls is judged call by call.
    ToolSpec(name="task", risk="read", framework=True, counts_as="fork", names_elsewhere=("task", "agent")),
    ToolSpec(name="read_file", risk="read", path_argument="path", names_elsewhere=_READ),
    ToolSpec(
        name="list_dir", risk="read", path_argument="path", default_path=".", names_elsewhere=_FOLDER
    ),
    ToolSpec(
        name="grep", risk="read", path_argument="path", default_path=".",
        names_elsewhere=("grep", "search_file_content", "grep_search"),
    ),
    ToolSpec(name="write_file", risk="write", path_argument="path", names_elsewhere=_WRITE),
    # Who may not write a file may not edit one, and who may write it whole may edit it.
    ToolSpec(
        name="edit_file", risk="write", path_argument="path", names_elsewhere=(*_WRITE, "write_file")
    ),
    ToolSpec(
        name="ask_user", risk="read", framework=True,
        names_elsewhere=("askuserquestion", "request_user_input", "ask_followup_question"),
    ),
    ToolSpec(
        name=PROPOSE_SKILL, risk="write", always_asks=True, recovery="retry",
        view=lambda args: f"{PROPOSE_SKILL} {args.get('name')}",
    ),
    ToolSpec(name=FETCH_URL, url_argument="url", names_elsewhere=_FETCH),
    # The agent has no such tools; a host may bring tools of these names.
    ToolSpec(name="web_fetch", url_argument="url", names_elsewhere=_FETCH),
    ToolSpec(name="web_search", names_elsewhere=("websearch",)),
)  # fmt: skip

TOOL_SPECS: Final[Mapping[str, ToolSpec]] = MappingProxyType({spec.name: spec for spec in _OWN})
"""The agent's own tools, and what hosts may call theirs, by name. Other clients: Claude Code, Gemini CLI,
Codex, Copilot, Cursor and deepagents."""
