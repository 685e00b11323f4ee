"""What tools are called in other clients, and what they are here: the one table."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_SHELL: Final = ("run_command", "run_script")
_READ: Final = ("read_file", "read_resource")

OTHER_CLIENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # A script of a skill is a command, too: `Bash` speaks of both.
        "bash": _SHELL,
        "shell": _SHELL,
        "terminal": _SHELL,
        "execute": _SHELL,
        "exec_command": _SHELL,
        "run_shell_command": _SHELL,
        "run_terminal_cmd": _SHELL,
        "run_in_terminal": _SHELL,
        "read": _READ,
        "view": _READ,
        "readfile": _READ,
        "read_many_files": _READ,
        "grep": ("grep",),
        "search_file_content": ("grep",),
        "grep_search": ("grep",),
        "glob": ("list_dir",),
        "ls": ("list_dir",),
        "list": ("list_dir",),
        "list_directory": ("list_dir",),
        "write": ("write_file",),
        "edit": ("write_file",),
        "multiedit": ("write_file",),
        "edit_file": ("write_file",),
        "replace": ("write_file",),
        "apply_patch": ("write_file",),
        "skill": ("load_skill",),
        "todowrite": ("update_plan",),
        "write_todos": ("update_plan",),
        # Nothing of that kind is here; a program may bring tools of these names.
        "webfetch": ("web_fetch",),
        "websearch": ("web_search",),
    }
)
"""Names of Claude Code, Gemini CLI, Codex, Copilot, Cursor and deepagents, in lower case."""

TAKES_COMMAND: Final = frozenset(
    {"run_command", *(name for name, ours in OTHER_CLIENTS.items() if ours == _SHELL)}
)
"""Names whose parenthesis holds a command."""

TAKES_PATH: Final = frozenset(
    {
        *("read_file", "read_resource", "list_dir", "grep", "write_file", "run_script"),
        *(
            name
            for name, ours in OTHER_CLIENTS.items()
            if ours in {_READ, ("grep",), ("list_dir",), ("write_file",)}
        ),
    }
)
"""Names whose parenthesis holds a path."""

OF_A_SKILL: Final = frozenset({"run_script", "read_resource"})
"""Tools whose call names a skill, and a path in its folder."""


def names_here(name: str) -> frozenset[str]:
    """Return the tools that a name speaks of: those of the table, and one of exactly that name."""
    return frozenset({name, *OTHER_CLIENTS.get(name.lower(), ())})
