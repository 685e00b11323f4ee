"""What git's configuration names: programs that git runs, hooks, and more configuration.

Read here and not by git, because it is read before every script; so it is taken loosely: whatever of a value
may be a path counts, if it is there.
"""

import os
import re
from typing import Final

MAX_CONFIGS: Final = 30
"""Files of configuration that one repository leads to."""
_ENTRY: Final = re.compile(r"^\s*(?:\[[^\]]*\]\s*)*([A-Za-z][\w-]*)\s*=\s*(.*)$")
_IN_VALUE: Final = re.compile(r"""[^\s"';|&<>()`$!=,#]+""")
INCLUDES: Final = frozenset({"path"})
"""Keys whose value may be more configuration."""
FOLDERS_OR_FILES: Final = frozenset({"hookspath", "path", "templatedir"})
_NO_PROGRAMS: Final = frozenset(
    {"name", "email", "url", "pushurl", "fetch", "push", "merge", "remote", "worktree"}
)
"""Keys whose values may be like the name of a file, and that git never runs."""


def global_configs() -> list[str]:
    """Return the files with what a user tells git for every repository, such as a folder of hooks in each."""
    home = os.path.expanduser("~")  # noqa: PTH111 - paths are text here
    return [f"{home}/.gitconfig", f"{home}/.config/git/config"]


def named_in(config: str) -> dict[str, set[str]]:
    """Return what the values of a configuration may name, each with the keys that it is a value of."""
    named: dict[str, set[str]] = {}
    for line in config.replace("\\\n", "").splitlines():
        if not (entry := _ENTRY.match(line)) or (key := entry[1].casefold()) in _NO_PROGRAMS:
            continue
        value = entry[2].replace("\\", "")
        whole = re.split(r'"[^"]*$|[;#]', value.strip().removeprefix('"'), maxsplit=1)[0].strip()
        for text in filter(None, (whole, *_IN_VALUE.findall(value))):
            named.setdefault(text, set()).add(key)
    return named
